//! weft-agent: command line, logging, signals. What it does is in the library.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use ipnet::IpNet;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tonic::service::InterceptorLayer;
use tonic::transport::Server;
use weft_agent::access::{Gate, with_tls};
use weft_agent::agent::Config;
use weft_agent::driver::{Driver, Safety};
use weft_agent::fib::Ids;
use weft_agent::forwarding::kernel::{Kernel, Numbers, Setting, hash_ports_too, put_back};
use weft_agent::guardian::{Guardian, guard, take_name};
use weft_agent::listener::connections;
use weft_agent::marks::Marks;
use weft_agent::{gnmi, gribi};
use weft_log::Form;
use weft_sys::KeyError;

/// Programs this Linux switch as weft says, beside FRR and never against it.
///
/// Routes live in a table of their own, behind a rule for marked packets; a next hop is used only while
/// FRR's route has it. Everything goes when the agent stops, dies or hangs, or when nobody programs it
/// any more. Names for `ip`: "155 weft" in /etc/iproute2/rt_protos and rt_tables.
#[derive(Debug, Parser)]
#[command(version, subcommand_negates_reqs = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Internal>,
    /// Where to serve gRIBI, gNMI and the agent's status; without --tls-cert in clear: keep it on the management network then.
    #[arg(long, default_value = "127.0.0.1:9340")]
    listen: SocketAddr,
    #[command(flatten)]
    access: AccessArguments,
    /// Who may connect: an address or a network; may be given several times.
    #[arg(long = "controller", value_parser = network, default_values = ["127.0.0.0/8", "::1"])]
    controllers: Vec<IpNet>,
    /// Routes are taken for prefixes inside of this only (the VTEPs of the fabric); may be given several times.
    #[arg(long = "prefix", value_parser = network, required_unless_present = "clean")]
    prefixes: Vec<IpNet>,
    /// Who programs the switch must send something this often; weft does so every second.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(2..=3600))]
    lease_secs: u16,
    /// Take a gRIBI Flush with override from every --controller, not only from the address of the primary.
    #[arg(long)]
    allow_override: bool,
    #[command(flatten)]
    numbers: KernelNumbers,
    /// The first of 2^24 kernel next-hop ids.
    #[arg(long, default_value = "0x57000000", value_parser = number)]
    id_base: u32,
    /// What clients call the routing table.
    #[arg(long, default_value = "DEFAULT")]
    network_instance: String,
    /// Leave net.ipv4.fib_multipath_hash_policy and its IPv6 sister as they are.
    #[arg(long)]
    keep_hash_policy: bool,
    /// The socket of lldpd, whose neighbours gNMI shows; without it, where lldpcli looks by itself.
    #[arg(long, value_name = "FILE")]
    lldpd_socket: Option<PathBuf>,
    /// Remove all that an agent ever left on this switch, and end.
    #[arg(long)]
    clean: bool,
    /// The format of log lines, on standard error.
    #[arg(long, value_enum, default_value_t = Form::Text)]
    log: Form,
}

/// TLS and the login. Their files are read once, at the start.
#[derive(Debug, Args)]
struct AccessArguments {
    /// Serve over TLS only, with the certificate, or the chain, in this PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate, a PEM file with mode 0400 or 0600.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Every call must carry the metadata `username`, with this name, and `password`. Needs TLS: no login goes in clear.
    #[arg(long, value_name = "NAME", requires_all = ["password_file", "tls_cert"])]
    username: Option<String>,
    /// The password of --username, a file with mode 0400 or 0600; a newline at its end is not part of it.
    #[arg(long, value_name = "FILE", requires = "username")]
    password_file: Option<PathBuf>,
}

impl AccessArguments {
    fn server(&self) -> Result<Server, String> {
        let server = Server::builder();
        match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => with_tls(server, certificate, key),
            (None, _) | (_, None) => Ok(server),
        }
    }

    fn gate(&self) -> Result<Gate, KeyError> {
        match (&self.username, &self.password_file) {
            (Some(username), Some(file)) => Gate::new(username.clone(), file),
            (None, _) | (_, None) => Ok(Gate::default()),
        }
    }
}

/// What the agent starts by itself.
#[derive(Debug, Subcommand)]
enum Internal {
    /// Takes the rule away when the agent that started it is gone.
    #[command(hide = true)]
    Guardian {
        #[command(flatten)]
        numbers: KernelNumbers,
        /// Settings to write back at the end: PATH=VALUE.
        #[arg(long)]
        restore: Vec<Setting>,
    },
}

#[derive(Clone, Debug, Args)]
struct KernelNumbers {
    /// The protocol number of routes, next hops and rules.
    #[arg(long, default_value_t = 155, value_parser = clap::value_parser!(u8).range(5..))]
    route_protocol: u8,
    /// The routing table of weights; 253 to 255 are the kernel's. Those of pins are 1000 times the number, and 1 to 255 more.
    #[arg(long, default_value_t = 155, value_parser = clap::value_parser!(u8).range(1..=252))]
    table: u8,
    /// The priority of the rule that looks the table up, before the main table's 32766. The rules of pins come one before.
    #[arg(long, default_value_t = 1550, value_parser = clap::value_parser!(u32).range(2..=32765))]
    rule_priority: u32,
    /// The mark of packets that look the table up.
    #[arg(long, default_value = "0x57000000", value_parser = number)]
    mark: u32,
    /// Which bits of a packet's mark are weft's. The eight bits below say which pin; if there are none, nothing is pinned.
    #[arg(long, default_value = "0xff000000", value_parser = number)]
    mark_mask: u32,
}

impl KernelNumbers {
    fn numbers(&self) -> Result<Numbers, String> {
        if self.mark == 0 || self.mark & !self.mark_mask != 0 {
            return Err(format!(
                "--mark {:#x} is 0 or has bits outside of --mark-mask {:#x}",
                self.mark, self.mark_mask
            ));
        }
        Ok(Numbers {
            protocol: self.route_protocol,
            table: self.table,
            priority: self.rule_priority,
            mark: self.mark,
            mask: self.mark_mask,
        })
    }

    fn guardian(&self, restore: &[Setting]) -> Vec<String> {
        let mut arguments = vec!["guardian".to_owned()];
        for (name, value) in [
            ("--route-protocol", self.route_protocol.to_string()),
            ("--table", self.table.to_string()),
            ("--rule-priority", self.rule_priority.to_string()),
            ("--mark", format!("{:#x}", self.mark)),
            ("--mark-mask", format!("{:#x}", self.mark_mask)),
        ] {
            arguments.extend([name.to_owned(), value]);
        }
        for setting in restore {
            arguments.extend(["--restore".to_owned(), setting.to_string()]);
        }
        arguments
    }
}

fn number(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|error| error.to_string())
}

fn network(text: &str) -> Result<IpNet, String> {
    let host = text.parse::<IpAddr>().map(IpNet::from);
    let network = host.or_else(|_| text.parse::<IpNet>());
    let network = network.map_err(|_| format!("{text:?} is neither an address nor a network"))?;
    Ok(network.trunc())
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let _flush = weft_log::start(arguments.log);
    match start(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            weft_log::print(format_args!("weft-agent: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn start(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(run(arguments));
    // The driver of a port that does not answer keeps no agent from its end.
    runtime.shutdown_timeout(END_MAX);
    outcome
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    match &arguments.command {
        Some(Internal::Guardian { numbers, restore }) => {
            let outcome = guard(numbers.numbers()?, || put_back(restore)).await;
            if let Err(error) = &outcome {
                // The agent that started it reads this.
                let mut stdout = tokio::io::stdout();
                stdout.write_all(format!("{error}\n").as_bytes()).await?;
                stdout.flush().await?;
            }
            Ok(outcome?)
        }
        None if arguments.clean => clean(&arguments).await,
        None => serve(arguments).await,
    }
}

async fn clean(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let numbers = arguments.numbers.numbers()?;
    let _name = take_name().await?;
    let objects = Kernel::open(numbers)?.clean().await?;
    weft_agent::marks::remove().await;
    tracing::info!(
        objects,
        protocol = numbers.protocol,
        "removed rules, routes, groups, next hops and marks"
    );
    Ok(())
}

async fn serve(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let numbers = arguments.numbers.numbers()?;
    let (server, gate) = (arguments.access.server()?, arguments.access.gate()?);
    // The guardian of an agent that has just died may still be putting the hash policy back.
    drop(take_name().await?);
    let restore = if arguments.keep_hash_policy {
        Vec::new()
    } else {
        hash_ports_too()?
    };
    let guardian = Guardian::start(arguments.numbers.guardian(&restore)).await?;
    let mut kernel = Kernel::open(numbers)?;
    let left = kernel.clean().await?;
    weft_agent::marks::remove().await;
    if left > 0 {
        tracing::warn!(objects = left, "removed what an earlier agent left");
    }
    let config = Config {
        network_instance: arguments.network_instance,
        ids: Ids::new(arguments.id_base)?,
        prefixes: arguments.prefixes,
        pins: numbers.has_slots(),
        lease: Duration::from_secs(arguments.lease_secs.into()),
        allow_override: arguments.allow_override,
    };
    let marks = Marks::start(numbers);
    let mut driver = Driver::start(config, kernel)
        .await?
        .safe(Safety { marks, guardian }, numbers);

    let (commands, queue) = gribi::commands();
    let (health, health_service) = tonic_health::server::health_reporter();
    for service in ["gribi.gRIBI", "gnmi.gNMI", "weft.agent.v1.AgentService"] {
        let serving = tonic_health::ServingStatus::Serving;
        health.set_service_status(service, serving).await;
    }
    let listener = listen(arguments.listen)?;
    tracing::info!(listen = %listener.local_addr()?, "serving gRIBI and gNMI");
    let gnmi = gnmi::service_with_lldpd(commands.clone(), driver.changes(), arguments.lldpd_socket);
    let server = server
        // A controller that vanished without a word does not keep its connection.
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .max_concurrent_streams(Some(STREAMS_MAX))
        .layer(InterceptorLayer::new(gate))
        .add_service(gribi::service(commands.clone()))
        .add_service(gnmi)
        .add_service(weft_agent::status::service(commands.clone()))
        .add_service(health_service)
        .serve_with_incoming(connections(listener, arguments.controllers, commands));

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
    // After an error the guardian cleans up, over a socket of its own.
    driver.run(queue, stop).await?;
    driver.clear().await;
    put_back(&restore);
    tracing::info!("stopped; everything is removed from the kernel");
    Ok(())
}

/// Listens, also at an address that this switch gets later.
fn listen(address: SocketAddr) -> Result<TcpListener, String> {
    let listening = weft_sys::listen(address, |_| Ok(()))
        .map_err(|error| format!("--listen {address}: {error}"))?;
    if !listening.assigned {
        tracing::warn!(%address, "this switch does not have the address; listening until it does");
    }
    TcpListener::from_std(listening.listener).map_err(|error| error.to_string())
}

const KEEPALIVE: Duration = Duration::from_secs(10);

/// For files that are still being read at the end.
const END_MAX: Duration = Duration::from_secs(1);

/// Calls at one time over one connection: far above what a controller has.
const STREAMS_MAX: u32 = 64;
