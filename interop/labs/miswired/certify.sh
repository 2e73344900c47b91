#!/bin/sh
# certify.sh: a CA, a certificate of it for the address of each switch, and the password of weft at all of them.
set -e
umask 077
key="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
openssl req -x509 $key -days 2 -subj "/CN=CA of miswired" -keyout ca.key -out ca.pem
for switch in spine1:192.0.2.21 spine2:192.0.2.22 leaf1:192.0.2.11 leaf2:192.0.2.12; do
    name=${switch%%:*}
    openssl req -new $key -subj "/CN=$name" -keyout "$name.key" -out "$name.csr"
    printf 'subjectAltName=IP:%s\n' "${switch#*:}" >"$name.ext"
    openssl x509 -req -in "$name.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile "$name.ext" -out "$name.pem"
done
printf 'not a secret: lab miswired\n' >password
