//! weft-agent: a gRIBI server that programs Linux next-hop groups and routes.
