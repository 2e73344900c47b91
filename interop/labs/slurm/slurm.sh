#!/bin/sh
# slurm.sh head HOOKS WEFT: slurmctld in the node head, with the hooks of that folder, and weft from where the program WEFT is.
# slurm.sh renew HOOKS: what the timer of the hooks runs there.
# slurm.sh NODE: slurmd in another node.
# slurm.sh ask COMMAND...: a command of Slurm's.
#
# The current folder is that of the node: what Slurm keeps and logs is there. A node is called by its name in a UTS namespace, and weft's
# settings are in /etc/default in a mount namespace, so that nothing of it is seen outside of the lab.
set -e
SLURM_CONF=$PWD/slurm.conf
export SLURM_CONF

configuration() {
    cat <<END
ClusterName=lab
SlurmctldHost=head(172.31.0.10)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
StateSaveLocation=$PWD/state
SlurmdSpoolDir=$PWD/spool
SlurmctldPidFile=$PWD/slurmctld.pid
SlurmdPidFile=$PWD/slurmd.pid
SlurmctldLogFile=$PWD/slurmctld.log
SlurmdLogFile=$PWD/slurmd.log
MailProg=/bin/true
# Files of nodes differ in their paths.
DebugFlags=NO_CONF_HASH
NodeName=h1 NodeAddr=172.31.0.1
NodeName=h2 NodeAddr=172.31.0.2
NodeName=h3 NodeAddr=172.31.0.3
NodeName=h4 NodeAddr=172.31.0.4
PartitionName=all Nodes=ALL Default=YES State=UP
END
}

# with_settings COMMAND...
with_settings() {
    unshare --mount --uts sh -ec '
        hostname head
        mount -t tmpfs settings /etc/default
        cp settings /etc/default/weft
        exec "$@"' sh "$@"
}

case $1 in
head)
    hooks=$2 weft=$3
    mkdir -p state
    configuration >slurm.conf
    cat >>slurm.conf <<END
PrologSlurmctld=$hooks/prolog.sh
EpilogSlurmctld=$hooks/epilog.sh
END
    cat >settings <<END
WEFT_ADDRESS=172.31.0.9:7401
SLURM_CONF=$SLURM_CONF
PATH=$(dirname "$(command -v "$weft")"):/usr/bin:/bin
END
    with_settings slurmctld >/dev/null 2>&1
    ;;
renew)
    with_settings sh "$2/renew.sh"
    ;;
ask)
    shift
    exec "$@"
    ;;
*)
    mkdir -p spool
    configuration >slurm.conf
    # No step is put into a control group, but slurmd wants to know which kind there would be.
    echo CgroupPlugin=cgroup/v1 >cgroup.conf
    unshare --uts sh -c 'hostname "$0"; exec slurmd' "$1" >/dev/null 2>&1
    ;;
esac
