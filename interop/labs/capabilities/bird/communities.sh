#!/bin/sh
# communities.sh: a filter of BIRD's that adds 1100 communities, 4400 octets, to every route.
{
    echo "function many() {"
    for number in $(seq 1100); do
        echo "    bgp_community.add((65000, $number));"
    done
    echo "}"
} >communities.conf
