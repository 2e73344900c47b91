#!/bin/sh
# unheard.sh begin|end: from now on nobody hears that a connection of this node ended.
set -e
case $1 in
begin)
    nft add table inet unheard
    nft add chain inet unheard out '{ type filter hook output priority 0; }'
    nft add rule inet unheard out tcp flags '&' '(fin|rst)' != 0 drop
    ;;
end) nft delete table inet unheard ;;
esac
