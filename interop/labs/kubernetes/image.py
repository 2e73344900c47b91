"""Prints a container image for containerd: docker.io/library/lab:1. It has what a pod's first container needs, which does
nothing, and else no more than the names of folders: pods of the lab have the programs of their node."""
import hashlib
import io
import json
import platform
import sys
import tarfile


def tar(members):
    """A tar archive of (name, content) pairs: octets, the target of a link, or None for a folder."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as file:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.mode = 0o755
            if content is None:
                member.type = tarfile.DIRTYPE
            elif isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
            else:
                member.size = len(content)
            file.addfile(member, io.BytesIO(content) if isinstance(content, bytes) else None)
    return archive.getvalue()


with open("/bin/busybox", "rb") as busybox:
    links = [(name, "usr/" + name) for name in ("bin", "lib", "lib64")]
    layer = tar([("usr", None), ("tmp", None), ("busybox", busybox.read()), *links])
config = {
    "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()],
    "os": "linux",
    "config": {"Entrypoint": ["/busybox", "sleep", "infinity"]},
    "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
}
manifest = [{"Config": "config.json", "RepoTags": ["docker.io/library/lab:1"], "Layers": ["layer.tar"]}]
members = [("config.json", json.dumps(config).encode()), ("layer.tar", layer), ("manifest.json", json.dumps(manifest).encode())]
sys.stdout.buffer.write(tar(members))
