//! weft-agent: command line, logging, signals. What it does is in the library.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use weft_agent::agent::Config;
use weft_agent::driver::Driver;
use weft_agent::fib::Ids;
use weft_agent::forwarding::kernel::{Kernel, hash_ports_too};
use weft_agent::gribi;

/// Programs this Linux switch as a gRIBI controller says.
///
/// Next hops, groups and routes carry a protocol number of their own (name it in
/// /etc/iproute2/rt_protos: "155 weft"), and stay in the kernel when the agent stops.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Where to serve gRIBI, without TLS: keep it on the management network.
    #[arg(long, default_value = "0.0.0.0:9340")]
    listen: SocketAddr,
    /// The protocol number of routes and next hops.
    #[arg(long, default_value_t = 155, value_parser = clap::value_parser!(u8).range(5..))]
    route_protocol: u8,
    /// The metric of routes; below the one of the switch's own routing (zebra: 20).
    #[arg(long, default_value_t = 10)]
    metric: u32,
    /// The first of 2^24 kernel next-hop ids.
    #[arg(long, default_value = "0x57000000", value_parser = number)]
    id_base: u32,
    /// What clients call the main routing table.
    #[arg(long, default_value = "DEFAULT")]
    network_instance: String,
    /// Leave net.ipv4.fib_multipath_hash_policy and its IPv6 sister as they are.
    #[arg(long)]
    keep_hash_policy: bool,
    /// Remove everything from the kernel when told to stop.
    #[arg(long)]
    flush_on_exit: bool,
    /// The format of log lines, on standard error.
    #[arg(long, value_enum, default_value_t = Log::Text)]
    log: Log,
}

#[derive(Copy, Clone, Debug, ValueEnum)]
enum Log {
    Text,
    Json,
}

fn number(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|error| error.to_string())
}

fn log(format: Log) {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .with_writer(std::io::stderr);
    match format {
        Log::Text => subscriber.init(),
        Log::Json => subscriber.json().init(),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    log(arguments.log);
    if !arguments.keep_hash_policy {
        hash_ports_too()?;
    }
    let kernel = Kernel::open(arguments.route_protocol, arguments.metric)?;
    let config = Config {
        network_instance: arguments.network_instance,
        ids: Ids::new(arguments.id_base)?,
    };
    let mut driver = Driver::start(config, kernel).await?;

    let (service, commands) = gribi::service();
    let (health, health_service) = tonic_health::server::health_reporter();
    health
        .set_service_status("gribi.gRIBI", tonic_health::ServingStatus::Serving)
        .await;
    let listener = tokio::net::TcpListener::bind(arguments.listen).await?;
    tracing::info!(listen = %listener.local_addr()?, "serving gRIBI");
    let server = Server::builder()
        .tcp_nodelay(true)
        // A controller that vanished without a word does not keep its stream.
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .add_service(service)
        .add_service(health_service)
        .serve_with_incoming(TcpListenerStream::new(listener));

    let server = tokio::spawn(server);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            outcome = server => tracing::error!(?outcome, "the server ended"),
        }
    };
    driver.run(commands, stop).await;
    if arguments.flush_on_exit {
        driver.clear().await;
        tracing::info!("removed everything from the kernel");
    }
    tracing::info!("stopped");
    Ok(())
}

const KEEPALIVE: Duration = Duration::from_secs(10);
