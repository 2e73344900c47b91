#!/bin/sh
# node.sh ADDRESS [NIC-ADDRESS]: containerd and a kubelet in the foreground, as a node that is called by the name of the current folder. Pods
# that ask for the network fabric/rail0 get the node's NIC, eth1, with that address; a node without is of the control plane, which workers
# keep away from.
#
# Everything but the network, the files and the CPU is the node's own: processes, mounts, and all that containerd and the kubelet keep,
# in memory. It ends with this script.
set -e
address=$1 nic=$2 name=${PWD##*/} lab=$(dirname "$0")
run=${PWD%/*}
cgroups=${run##*/}-$name

if [ -z "$NODE_STAGE" ]; then
    NODE_STAGE=mounts exec unshare --mount sh "$0" "$@"
fi

controllers='cpu cpuacct cpuset memory devices freezer blkio pids'
if [ "$NODE_STAGE" = mounts ]; then
    for controller in $controllers; do
        grep -q ":$controller:" /proc/self/cgroup || {
            echo "the cgroup controller $controller has no hierarchy of its own (cgroup v1) on this machine" >&2
            exit 1
        }
    done
    for folder in /run /var/lib /var/log; do
        mount -t tmpfs lab $folder
    done
    mount -t tmpfs lab /sys/fs/cgroup
    for controller in $controllers; do
        mkdir /sys/fs/cgroup/$controller
        mount -t cgroup -o $controller cgroup /sys/fs/cgroup/$controller
    done
    remove_cgroups() {
        for controller in /sys/fs/cgroup/*; do
            for _ in 1 2 3 4 5 6 7 8 9 10; do
                [ -e "$controller/$cgroups" ] || break
                # The last processes may still be ending.
                find "$controller/$cgroups" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.1
            done
        done
    }
    # Those of a node that was killed.
    remove_cgroups
    mkdir -p $(printf "/sys/fs/cgroup/%s/$cgroups " $(ls /sys/fs/cgroup))
    NODE_STAGE=node unshare --pid --fork --kill-child --mount-proc sh "$0" "$@" &
    trap 'kill -KILL $!' TERM INT
    wait $! || true
    trap - TERM INT
    remove_cgroups
    exit
fi

# What a kubelet sets for the whole machine, it finds set, and sees alone.
for wanted in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 kernel/keys/root_maxkeys=1000000 \
    kernel/keys/root_maxbytes=25000000; do
    file=/run/${wanted%=*}
    mkdir -p "${file%/*}"
    echo "${wanted#*=}" >"$file"
    mount --bind "$file" "/proc/sys/${wanted%=*}"
done

server=https://172.31.0.10:6443
certificate=$run/head/certs/apiserver.crt
mkdir -p /run/plugins /run/cni /run/networks
ln -s /usr/lib/cni/* /run/plugins
cp "$lab/networks.py" /run/plugins/networks
chmod +x /run/plugins/networks
cat >/run/cni/lab.conf <<END
{"cniVersion": "0.3.1", "name": "cbr0", "type": "networks", "folder": "/run/networks", "server": "$server", "ca": "$certificate", "token": "$name"}
END
cat >/run/networks/cbr0.conf <<END
{"cniVersion": "0.3.1", "name": "cbr0", "type": "bridge", "bridge": "cbr0", "isGateway": true,
    "ipam": {"type": "host-local", "subnet": "10.244.${address##*.}.0/24", "dataDir": "/run/addresses"}}
END
cat >/run/networks/rail0.conf <<END
{"cniVersion": "0.3.1", "name": "rail0", "type": "host-device", "device": "eth1",
    "ipam": {"type": "static", "addresses": [{"address": "$nic/24"}]}}
END
cat >/run/containerd.toml <<END
version = 2
[plugins."io.containerd.grpc.v1.cri"]
# A lab may not have the right to lower it.
restrict_oom_score_adj = true
sandbox_image = "docker.io/library/lab:1"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/run/plugins"
conf_dir = "/run/cni"
END
cat >/run/kubelet.conf <<END
apiVersion: v1
kind: Config
clusters: [{name: lab, cluster: {server: "$server", certificate-authority: $certificate}}]
users: [{name: kubelet, user: {token: $name}}]
contexts: [{name: lab, context: {cluster: lab, user: kubelet}}]
current-context: lab
END

role='--register-with-taints node-role.kubernetes.io/control-plane=:NoSchedule'
# A pod that is deleted goes with its last container, and not when containers are collected, once a minute. Logs go, too.
[ -z "$nic" ] || role='--maximum-dead-containers-per-container 0'
containerd --config /run/containerd.toml &
until ctr version >/dev/null 2>&1; do
    kill -0 $!
    sleep 0.1
done
python3 "$lab/image.py" | ctr --namespace k8s.io images import -
exec "${XDG_CACHE_HOME:-$HOME/.cache}/weft/kubernetes-1.20.2/kubelet" --kubeconfig /run/kubelet.conf --hostname-override "$name" \
    --node-ip "$address" --container-runtime remote --container-runtime-endpoint unix:///run/containerd/containerd.sock \
    --cgroups-per-qos=false --enforce-node-allocatable= --cgroup-root "/$cgroups" --fail-swap-on=false \
    $role --eviction-hard 'memory.available<1Mi' --image-gc-high-threshold 100 --make-iptables-util-chains=false --resolv-conf '' \
    --node-status-update-frequency 1s
