#!/bin/sh
# kubernetes.sh etcd|apiserver|controllers: a part of the control plane, in the foreground.
# kubernetes.sh kubectl ARGUMENT...: kubectl, as the administrator.
# kubernetes.sh attach POD NODE ADDRESS: what the scheduler, the kubelet and Multus would do: POD runs at NODE, with a NIC of that address.
# kubernetes.sh hook HOOKS WEFT VERB: hook.sh, as whatever starts and ends jobs would call it.
# kubernetes.sh launch HOOKS WEFT ACCOUNT JOB COMMAND...: launch.sh around COMMAND, as in a pod with that service account.
#
# The current folder is that of the node: what Kubernetes keeps is there.
set -e
PATH=${XDG_CACHE_HOME:-$HOME/.cache}/weft/kubernetes-1.20.2:$PATH
# kubectl keeps what it found out about a server there.
export HOME="$PWD"
server=https://172.31.0.10:6443
admin=administrator

# user NAME TOKEN: a configuration of kubectl, and its file.
user() {
    cat >"$1.conf.$$" <<END
apiVersion: v1
kind: Config
clusters: [{name: lab, cluster: {server: "$server", certificate-authority: $PWD/certs/apiserver.crt}}]
users: [{name: $1, user: {token: $2}}]
contexts: [{name: lab, context: {cluster: lab, user: $1}}]
current-context: lab
END
    # Whole, whoever reads it meanwhile.
    mv "$1.conf.$$" "$1.conf"
    export KUBECONFIG="$PWD/$1.conf"
}

# settings WEFT: what the pod of a launcher has in its environment.
settings() {
    PATH=$(dirname "$1"):$PATH
    export PATH WEFT_ADDRESS=172.31.0.9:7401 WEFT_JOB=train-42 WEFT_SELECTOR=job-name=train-42 WEFT_PODS=4 \
        WEFT_NETWORKS=fabric/rail0=100 WEFT_RETRY_SECS=1
}

part=$1
[ $# = 0 ] || shift
case $part in
etcd)
    exec etcd --data-dir etcd --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
        --listen-peer-urls http://127.0.0.1:2380
    ;;
apiserver)
    openssl genrsa -out accounts.key 2048
    echo "$admin,$admin,1,system:masters" >tokens.csv
    exec kube-apiserver --etcd-servers http://127.0.0.1:2379 --bind-address 172.31.0.10 --secure-port 6443 \
        --advertise-address 172.31.0.10 --cert-dir certs --token-auth-file tokens.csv --authorization-mode RBAC \
        --service-account-issuer https://kubernetes.default.svc --service-account-key-file accounts.key \
        --service-account-signing-key-file accounts.key --service-cluster-ip-range 10.96.0.0/24
    ;;
controllers)
    user $admin $admin
    # Those that run programs on nodes are left out: there is no kubelet.
    exec kube-controller-manager --kubeconfig "$KUBECONFIG" --leader-elect=false --port 0 --secure-port 0 \
        --controllers statefulset,serviceaccount,serviceaccount-token --service-account-private-key-file accounts.key
    ;;
kubectl)
    user $admin $admin
    exec kubectl "$@"
    ;;
attach)
    pod=$1 node=$2 address=$3
    user $admin $admin
    path=/api/v1/namespaces/default/pods/$pod
    [ -n "$(kubectl get pod "$pod" --output 'jsonpath={.spec.nodeName}')" ] ||
        echo '{"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "'$pod'"}, "target": {"kind": "Node", "name": "'$node'"}}' |
        kubectl create --raw "$path/binding" -f -
    kubectl annotate --overwrite pod "$pod" k8s.v1.cni.cncf.io/network-status='[
        {"name": "cbr0", "interface": "eth0", "ips": ["10.244.0.'${address##*.}'"], "default": true, "dns": {}},
        {"name": "fabric/rail0", "interface": "net1", "ips": ["'$address'"], "dns": {}}]'
    curl --silent --show-error --fail --cacert certs/apiserver.crt --header "Authorization: Bearer $admin" \
        --request PATCH --header 'Content-Type: application/merge-patch+json' --data '{"status": {"phase": "Running"}}' \
        --output /dev/null "$server$path/status"
    ;;
hook)
    user $admin $admin
    settings "$2"
    exec sh "$1/hook.sh" "$3" 2>&1
    ;;
launch)
    hooks=$1 weft=$2 account=$3 job=$4
    shift 4
    user $admin $admin
    secret=$(kubectl get serviceaccount "$account" --output 'jsonpath={.secrets[0].name}')
    token=$(kubectl get secret "$secret" --output 'jsonpath={.data.token}' | base64 -d)
    user "$account" "$token"
    settings "$weft"
    WEFT_JOB=$job exec sh "$hooks/launch.sh" "$@"
    ;;
*)
    echo "etcd, apiserver, controllers, kubectl, attach, hook or launch is needed" >&2
    exit 2
    ;;
esac
