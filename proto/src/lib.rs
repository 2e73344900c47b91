//! The gRPC contracts of weft and the code generated from them.
