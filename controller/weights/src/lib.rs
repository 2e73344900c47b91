//! How traffic is spread over paths: problem, weights, quantisation, reasons.
