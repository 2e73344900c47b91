//! tshark on our BMP octets, put into a capture by text2pcap.
