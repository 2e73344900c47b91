#!/bin/sh
# fabric.sh LEAVES SPINES: declares so many of each, every leaf cabled to every spine, and an agent at each leaf.
awk -v leaves=$1 -v spines=$2 'BEGIN {
    print "name: idle\nswitches:"
    for (l = 0; l < leaves; l++)
        printf "  - {name: leaf%d, role: leaf, vtep_address: 10.255.%d.%d, agent_address: \"127.0.0.1:%d\"}\n", l, l / 200, l % 200 + 1, 20000 + l
    for (s = 0; s < spines; s++)
        printf "  - {name: spine%d, role: spine}\n", s
    print "links:"
    for (l = 0; l < leaves; l++)
        for (s = 0; s < spines; s++) {
            n = 2 * (l * spines + s)
            net = sprintf("10.%d.%d", n / 65536, n / 256 % 256)
            printf "  - {a: {switch: leaf%d, interface: eth%d, address: %s.%d}, b: {switch: spine%d, interface: eth%d, address: %s.%d}, capacity_bps: 400000000000}\n", l, s + 1, net, n % 256, s, l + 1, net, n % 256 + 1
        }
}'
