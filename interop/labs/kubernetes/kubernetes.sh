#!/bin/sh
# kubernetes.sh etcd|apiserver|controllers|scheduler: a part of the control plane, in the foreground.
# kubernetes.sh kubectl ARGUMENT...: kubectl, as the administrator.
# kubernetes.sh launch FILE HOOKS WEFT ACCOUNT JOB COMMAND: makes the pod of a launcher with that service account. The current folder is its own.
# kubernetes.sh hook HOOKS WEFT VERB: hook.sh, as whatever starts and ends jobs would call it.
# kubernetes.sh rank POD SCRIPT ARGUMENT...: a script of bash in a pod.
#
# The current folder is that of the node head: what the control plane keeps is there.
set -e
programs=${XDG_CACHE_HOME:-$HOME/.cache}/weft/kubernetes-1.20.2
PATH=$programs:$PATH
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

part=$1
[ $# = 0 ] || shift
case $part in
etcd)
    exec etcd --data-dir etcd --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
        --listen-peer-urls http://127.0.0.1:2380
    ;;
apiserver)
    openssl genrsa -out accounts.key 2048
    # A token, and the name, the number and the group of who has it.
    {
        echo "$admin,$admin,1,system:masters"
        printf '%s,system:node:%s,2,system:nodes\n' head head h1 h1 h2 h2 h3 h3 h4 h4
    } >tokens.csv
    exec kube-apiserver --etcd-servers http://127.0.0.1:2379 --bind-address 172.31.0.10 --secure-port 6443 \
        --advertise-address 172.31.0.10 --cert-dir certs --token-auth-file tokens.csv --authorization-mode Node,RBAC \
        --enable-admission-plugins NodeRestriction --kubelet-preferred-address-types InternalIP \
        --service-account-issuer https://kubernetes.default.svc --service-account-key-file accounts.key \
        --service-account-signing-key-file accounts.key --service-cluster-ip-range 10.96.0.0/24
    ;;
controllers)
    user $admin $admin
    exec kube-controller-manager --kubeconfig "$KUBECONFIG" --leader-elect=false --port 0 --secure-port 0 \
        --controllers statefulset,serviceaccount,serviceaccount-token,nodelifecycle --root-ca-file certs/apiserver.crt \
        --service-account-private-key-file accounts.key
    ;;
scheduler)
    user $admin $admin
    exec kube-scheduler --kubeconfig "$KUBECONFIG" --leader-elect=false --port 0 --secure-port 0
    ;;
kubectl)
    user $admin $admin
    exec kubectl "$@"
    ;;
launch)
    user $admin $admin
    sed "s|KUBERNETES-FOLDER|$programs|; s|HOOKS-FOLDER|$(realpath "$2")|; s|WEFT-FOLDER|${3%/*}|; s|WORK-FOLDER|$PWD|
        s|ACCOUNT|$4|; s|JOB-NAME|$5|; s|COMMAND|$6|" "$1" | kubectl apply --filename -
    ;;
hook)
    user $admin $admin
    PATH=${2%/*}:$PATH
    export PATH WEFT_JOB=train-42
    export $(kubectl get configmap weft --output 'go-template={{range $name, $value := .data}}{{$name}}={{$value}} {{end}}')
    exec sh "$1/hook.sh" "$3" 2>&1
    ;;
rank)
    pod=$1 script=$2
    shift 2
    user $admin $admin
    exec kubectl exec --stdin "$pod" -- bash -s "$@" <"$script"
    ;;
*)
    echo "etcd, apiserver, controllers, scheduler, kubectl, launch, hook or rank is needed" >&2
    exit 2
    ;;
esac
