#!/bin/sh
# build.sh ARCHIVE PROGRAM...: builds programs of Kubernetes in the current folder, into bin. Of Debian's archive: its source package, which has
# all that they depend on, but for one package that crashes. Their version there is the last whose source Debian has as a whole.
set -e
archive=${1%/}
shift
version=1.20.2
file=kubernetes_1.20.5+really$version.orig.tar.gz
sum=b83c0780efb182d928dc63d46488a847f161f04e40a94b96bf5247dd671ecdfc

curl --silent --show-error --fail --location --connect-timeout 20 --speed-limit 1000 --speed-time 30 \
    --output "$file" "$archive/pool/main/k/kubernetes/$file"
echo "$sum  $file" | sha256sum --check --quiet

# Not a module: what it depends on is beside it, and no network is asked.
export GO111MODULE=off GOPATH="$PWD/go" GOCACHE="$PWD/cache" CGO_ENABLED=0
mkdir -p go/src/k8s.io/kubernetes
tar -xzf "$file" --strip-components 1 -C go/src/k8s.io/kubernetes
bin=$PWD/bin
cd go/src/k8s.io/kubernetes
# The version that is there reads maps as Go had them before 1.18, and crashes since; Debian has the next one.
rm -r vendor/github.com/modern-go/reflect2
cp -r /usr/share/gocode/src/github.com/modern-go/reflect2 vendor/github.com/modern-go/

# The description of its API is made from comments, and not in the source.
packages=$(grep -rl '+k8s:openapi-gen=' --include='*.go' pkg staging/src/k8s.io |
    grep -v 'zz_generated\|/code-generator/\|/sample-apiserver/\|_test\.go' |
    sed 's,^staging/src/,vendor/,' | xargs -n 1 dirname | sort -u | sed 's,^,k8s.io/kubernetes/,' | paste -sd ,)
go run ./vendor/k8s.io/kube-openapi/cmd/openapi-gen --go-header-file hack/boilerplate/boilerplate.generatego.txt \
    --output-file-base zz_generated.openapi --output-package k8s.io/kubernetes/pkg/generated/openapi \
    --report-filename /dev/null --input-dirs "$packages"

part=k8s.io/kubernetes/vendor/k8s.io/component-base/version
for program; do
    go build -o "$bin/$program" \
        -ldflags "-s -w -X $part.gitVersion=v$version -X $part.gitMajor=1 -X $part.gitMinor=20" "./cmd/$program"
done
