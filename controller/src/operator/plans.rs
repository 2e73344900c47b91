//! The service of plans: how each leaf should spread what it sends, what the switches have of that, and what weft does with
//! it. Knows no row.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use weft_proto::v1::{self as proto, plan_service_server};

use self::leader::Leader;
use super::access::Identity;
use super::leader::Way;
use super::page::{self, Page};
use super::replicas::Addresses;
use super::{Answer, agreed, header, look, off_the_runtime, refusal};
use crate::balancer::pins::programmed::Programmed;
use crate::daemon::switches::led::Led;
use crate::fabric::fact::InvalidFabric;
use crate::fabric::mode;
use crate::fabric::topology::SwitchName;
use crate::speaker::Shared;

mod balance;
pub(super) mod decision;
mod every;
mod flows;
pub(super) mod job;
mod leader;
mod leaf;
mod link;
pub mod simulate;

pub use leader::AtLeader;

/// Answers of plans.
pub struct Service {
    shared: Arc<Shared>,
    led: Led,
    way: Way,
}

impl Service {
    /// For a running daemon.
    pub fn new(shared: Arc<Shared>, led: Led, addresses: Arc<Addresses>) -> Self {
        Self {
            way: Way::new(Arc::clone(&shared), addresses),
            shared,
            led,
        }
    }

    /// The leaf of that name, of the fabric as it is declared now: a plan may come later.
    async fn leaf(&self, name: &str) -> Result<SwitchName, Status> {
        let look = look::at(&self.shared, 0, |reflector| {
            reflector.control().declared.clone()
        });
        balance::known(look.await?.topology(), name)?;
        Ok(name.into())
    }

    /// The switches that weft programs, by name.
    fn agents(&self) -> Vec<proto::SwitchAgent> {
        let mut agents = self.led.agents();
        agents.sort_by(|a, b| a.switch_name.cmp(&b.switch_name));
        agents
    }

    /// A page of what this replica has planned for jobs.
    async fn job_plans(&self, asked: Asked) -> Result<proto::ListJobPlansResponse, Status> {
        let agreed = job::Agreed::look(&self.shared).await?;
        let (plan, index) = (self.led.pin_plan(), agreed.index);
        let certificate = plan.certificate.as_ref().map(job::certificate);
        let (weights, flows) = (self.led.plan(), self.led.flows());
        let lacking = self.led.lacking();
        let page = move || {
            let programmed = Programmed {
                plan: &weights,
                flows: &flows,
                lacking: &lacking,
            };
            let after = asked.after.as_deref();
            job::page(&agreed, (&plan, programmed), after, asked.size)
        };
        let (job_plans, next_page_token) = off_the_runtime(page).await?;
        Ok(proto::ListJobPlansResponse {
            header: Some(header::of(&self.shared, index)),
            job_plans,
            next_page_token,
            certificate,
        })
    }

    /// A page of what this replica sees of links.
    async fn link_statuses(&self, asked: Asked) -> Result<proto::ListLinkStatusesResponse, Status> {
        let (declared, _) = agreed::declared(&self.shared).await?;
        let led = self.led.clone();
        let page = move || {
            let after = asked.after.as_deref();
            link::page(&led, declared.topology(), after, asked.size)
        };
        let page = off_the_runtime(page).await?;
        Ok(proto::ListLinkStatusesResponse {
            header: self.header(),
            next_page_token: page.next(link::STATUSES, |last| last.link_name.clone()),
            link_statuses: page.rows,
        })
    }

    fn header(&self) -> Option<proto::ResponseHeader> {
        Some(header::own(&self.shared))
    }
}

/// Which page is asked for.
struct Asked {
    /// The last row of the page before; None: the first page.
    after: Option<String>,
    /// Rows that it has at most.
    size: usize,
}

impl Asked {
    /// Reads which page of a list a client wants.
    fn read(list: &str, page_token: &str, page_size: i32) -> Result<Self, Status> {
        let mut faults = InvalidFabric::default();
        let after = page::after(list, page_token, &mut faults).map(str::to_owned);
        let size = page::size(page_size, &mut faults);
        refusal::check(&faults)?;
        Ok(Self { after, size })
    }
}

#[tonic::async_trait]
impl plan_service_server::PlanService for Service {
    async fn list_leaf_plans(
        &self,
        request: Request<proto::ListLeafPlansRequest>,
    ) -> Answer<proto::ListLeafPlansResponse> {
        let request = request.into_inner();
        let mut faults = InvalidFabric::default();
        let after = page::after_read(leaf::PLANS, &request.page_token, leaf::place, &mut faults);
        let size = page::size(request.page_size, &mut faults);
        refusal::check(&faults)?;
        if let Ok(Leader::There(mut leader)) = leader::leader(&self.way)
            && let Some(answer) = leader::if_there(leader.list_leaf_plans(request.clone()).await)
        {
            return answer;
        }
        let only = match &request.leaf_name {
            Some(name) => Some(self.leaf(name).await?),
            None => None,
        };
        let (plan, covers) = (self.led.plan(), self.led.covers());
        let page = move || leaf::page(&plan, covers, only.as_ref(), after.as_ref(), size);
        let (leaf_plans, next_page_token) = off_the_runtime(page).await??;
        Ok(Response::new(proto::ListLeafPlansResponse {
            header: self.header(),
            leaf_plans,
            next_page_token,
        }))
    }

    async fn get_leaf_plan(
        &self,
        request: Request<proto::GetLeafPlanRequest>,
    ) -> Answer<proto::GetLeafPlanResponse> {
        let request = request.into_inner();
        if let Ok(Leader::There(mut leader)) = leader::leader(&self.way)
            && let Some(answer) = leader::if_there(leader.get_leaf_plan(request.clone()).await)
        {
            return answer;
        }
        let leaf = self.leaf(&request.leaf_name).await?;
        let (plan, covers) = (self.led.plan(), self.led.covers());
        let shown = off_the_runtime(move || leaf::one(&plan, covers, &leaf)).await??;
        Ok(Response::new(proto::GetLeafPlanResponse {
            header: self.header(),
            resource: Some(shown),
        }))
    }

    async fn list_leaf_plan_diffs(
        &self,
        request: Request<proto::ListLeafPlanDiffsRequest>,
    ) -> Answer<proto::ListLeafPlanDiffsResponse> {
        let request = request.into_inner();
        let mut faults = InvalidFabric::default();
        let after = page::after(leaf::DIFFS, &request.page_token, &mut faults);
        let after = after.map(str::to_owned);
        let size = page::size(request.page_size, &mut faults);
        refusal::check(&faults)?;
        if let Leader::There(mut leader) = leader::leader(&self.way)? {
            return leader::answered(leader.list_leaf_plan_diffs(request).await);
        }
        let led = self.led.clone();
        let page = move || leaf::diffs(&led, after.as_deref(), size);
        let (leaf_plan_diffs, next_page_token) = off_the_runtime(page).await??;
        Ok(Response::new(proto::ListLeafPlanDiffsResponse {
            header: self.header(),
            leaf_plan_diffs,
            next_page_token,
        }))
    }

    async fn get_leaf_plan_diff(
        &self,
        request: Request<proto::GetLeafPlanDiffRequest>,
    ) -> Answer<proto::GetLeafPlanDiffResponse> {
        if let Leader::There(mut leader) = leader::leader(&self.way)? {
            return leader::answered(leader.get_leaf_plan_diff(request).await);
        }
        let leaf = self.leaf(&request.get_ref().leaf_name).await?;
        let led = self.led.clone();
        let diff = off_the_runtime(move || leaf::diff(&led, &leaf)).await??;
        Ok(Response::new(proto::GetLeafPlanDiffResponse {
            header: self.header(),
            resource: Some(diff),
        }))
    }

    async fn list_switch_agents(
        &self,
        request: Request<proto::ListSwitchAgentsRequest>,
    ) -> Answer<proto::ListSwitchAgentsResponse> {
        let request = request.into_inner();
        let mut faults = InvalidFabric::default();
        let after = page::after(AGENTS, &request.page_token, &mut faults);
        let size = page::size(request.page_size, &mut faults);
        refusal::check(&faults)?;
        if let Leader::There(mut leader) = leader::leader(&self.way)? {
            return leader::answered(leader.list_switch_agents(request.clone()).await);
        }
        let rest = self.agents().into_iter();
        let rest = rest.filter(|row| after.is_none_or(|after| row.switch_name.as_str() > after));
        let mut page = Page::of(size, rest);
        let lacking = self.led.lacking();
        for row in &mut page.rows {
            row.unprogrammed_reason = job::unprogrammed_switch(&lacking, &row.switch_name);
        }
        Ok(Response::new(proto::ListSwitchAgentsResponse {
            header: self.header(),
            next_page_token: page.next(AGENTS, |last| last.switch_name.clone()),
            switch_agents: page.rows,
        }))
    }

    async fn get_switch_agent(
        &self,
        request: Request<proto::GetSwitchAgentRequest>,
    ) -> Answer<proto::GetSwitchAgentResponse> {
        if let Leader::There(mut leader) = leader::leader(&self.way)? {
            return leader::answered(leader.get_switch_agent(request).await);
        }
        let name = request.into_inner().switch_name;
        let mut agents = self.agents().into_iter();
        let agent = agents.find(|agent| agent.switch_name == name);
        let missing = || {
            let reason = format!("there is no agent of {name:?}");
            refusal::missing_because("switch_name", "switch agent", &name, reason)
        };
        let status = self.led.status(&name.as_str().into());
        let agent = proto::SwitchAgent {
            agent_status: status.map(|said| said.whole()),
            unprogrammed_reason: job::unprogrammed_switch(&self.led.lacking(), &name),
            ..agent.ok_or_else(missing)?
        };
        Ok(Response::new(proto::GetSwitchAgentResponse {
            header: self.header(),
            resource: Some(agent),
        }))
    }

    async fn list_leaf_balances(
        &self,
        request: Request<proto::ListLeafBalancesRequest>,
    ) -> Answer<proto::ListLeafBalancesResponse> {
        let request = request.into_inner();
        let mut faults = InvalidFabric::default();
        let after = page::after(BALANCES, &request.page_token, &mut faults);
        let size = page::size(request.page_size, &mut faults);
        refusal::check(&faults)?;
        let (declared, _) = agreed::declared(&self.shared).await?;
        let (modes, index) = balance::modes(&self.shared.consensus).await?;
        let rows = balance::rows(&modes, declared.topology(), after.unwrap_or_default());
        let page = Page::of(size, rows);
        Ok(Response::new(proto::ListLeafBalancesResponse {
            header: Some(header::of(&self.shared, index)),
            next_page_token: page.next(BALANCES, |last| last.leaf_name.clone()),
            leaf_balances: page.rows,
            default_mode: mode::to_message(modes.of_others()).into(),
        }))
    }

    async fn get_leaf_balance(
        &self,
        request: Request<proto::GetLeafBalanceRequest>,
    ) -> Answer<proto::GetLeafBalanceResponse> {
        let (declared, _) = agreed::declared(&self.shared).await?;
        let leaf = balance::known(declared.topology(), &request.get_ref().leaf_name)?;
        let (modes, index) = balance::modes(&self.shared.consensus).await?;
        Ok(Response::new(proto::GetLeafBalanceResponse {
            header: Some(header::of(&self.shared, index)),
            resource: Some(balance::row(&modes, leaf)),
        }))
    }

    async fn get_job_plan(
        &self,
        request: Request<proto::GetJobPlanRequest>,
    ) -> Answer<proto::GetJobPlanResponse> {
        let request = request.into_inner();
        if let Ok(Leader::There(mut leader)) = leader::leader(&self.way)
            && let Some(answer) = leader::if_there(leader.get_job_plan(request.clone()).await)
        {
            return answer;
        }
        let agreed = job::Agreed::look(&self.shared).await?;
        let (plan, weights) = (self.led.pin_plan(), self.led.plan());
        let (flows, lacking) = (self.led.flows(), self.led.lacking());
        let job = Arc::clone(agreed.job(&request.job_name)?);
        let certificate = plan.certificate.as_ref().map(job::certificate);
        let index = agreed.index;
        let row = move || {
            let programmed = Programmed {
                plan: &weights,
                flows: &flows,
                lacking: &lacking,
            };
            job::row(&job, &plan, &agreed.pins, Some(programmed))
        };
        Ok(Response::new(proto::GetJobPlanResponse {
            resource: Some(off_the_runtime(row).await?),
            header: Some(header::of(&self.shared, index)),
            certificate,
        }))
    }

    async fn list_job_plans(
        &self,
        request: Request<proto::ListJobPlansRequest>,
    ) -> Answer<proto::ListJobPlansResponse> {
        let request = request.into_inner();
        let asked = Asked::read(job::JOB_PLANS, &request.page_token, request.page_size)?;
        if let Ok(Leader::There(mut leader)) = leader::leader(&self.way)
            && let Some(answer) = leader::if_there(leader.list_job_plans(request.clone()).await)
        {
            return answer;
        }
        self.job_plans(asked).await.map(Response::new)
    }

    async fn list_job_flows(
        &self,
        request: Request<proto::ListJobFlowsRequest>,
    ) -> Answer<proto::ListJobFlowsResponse> {
        let request = request.into_inner();
        let asked = flows::Asked::read(&request)?;
        if let Ok(Leader::There(mut leader)) = leader::leader(&self.way)
            && let Some(answer) = leader::if_there(leader.list_job_flows(request).await)
        {
            return answer;
        }
        let agreed = job::Agreed::look(&self.shared).await?;
        let index = agreed.index;
        let (plan, weights) = (self.led.pin_plan(), self.led.plan());
        let (flows, lacking) = (self.led.flows(), self.led.lacking());
        let page = move || {
            let programmed = Programmed {
                plan: &weights,
                flows: &flows,
                lacking: &lacking,
            };
            asked.page(&agreed, &plan, programmed)
        };
        let mut listed = off_the_runtime(page).await??;
        listed.see(&self.led).await;
        Ok(Response::new(proto::ListJobFlowsResponse {
            header: Some(header::of(&self.shared, index)),
            flows: listed.rows,
            next_page_token: listed.next,
            unlisted_reason: listed.unlisted_reason,
        }))
    }

    async fn list_link_statuses(
        &self,
        request: Request<proto::ListLinkStatusesRequest>,
    ) -> Answer<proto::ListLinkStatusesResponse> {
        let request = request.into_inner();
        let asked = Asked::read(link::STATUSES, &request.page_token, request.page_size)?;
        if let Leader::There(mut leader) = leader::leader(&self.way)? {
            return leader::answered(leader.list_link_statuses(request).await);
        }
        let answer = leader::as_leader(&self.shared, self.link_statuses(asked));
        answer.await.map(Response::new)
    }

    async fn get_link_status(
        &self,
        request: Request<proto::GetLinkStatusRequest>,
    ) -> Answer<proto::GetLinkStatusResponse> {
        if let Leader::There(mut leader) = leader::leader(&self.way)? {
            return leader::answered(leader.get_link_status(request).await);
        }
        let (declared, _) = agreed::declared(&self.shared).await?;
        let name = &request.get_ref().link_name;
        let row = link::row(&self.led, declared.topology(), name)?;
        Ok(Response::new(proto::GetLinkStatusResponse {
            header: self.header(),
            resource: Some(row),
        }))
    }

    async fn list_pins(
        &self,
        request: Request<proto::ListPinsRequest>,
    ) -> Answer<proto::ListPinsResponse> {
        let asked = job::Asked::read(request.get_ref())?;
        let agreed = job::Agreed::look(&self.shared).await?;
        let index = agreed.index;
        let (plan, flows) = (self.led.pin_plan(), self.led.flows());
        let page = move || asked.page(&agreed, &plan, &flows);
        let (pins, next_page_token) = off_the_runtime(page).await??;
        Ok(Response::new(proto::ListPinsResponse {
            header: Some(header::of(&self.shared, index)),
            pins,
            next_page_token,
        }))
    }

    async fn list_decisions(
        &self,
        request: Request<proto::ListDecisionsRequest>,
    ) -> Answer<proto::ListDecisionsResponse> {
        let asked = decision::Asked::read(request.get_ref())?;
        let (measured, index) = asked.look(&self.shared).await?;
        let (decisions, next_page_token) = off_the_runtime(move || asked.page(&measured)).await?;
        Ok(Response::new(proto::ListDecisionsResponse {
            header: Some(header::of(&self.shared, index)),
            decisions,
            next_page_token,
        }))
    }

    async fn set_balance(
        &self,
        request: Request<proto::SetBalanceRequest>,
    ) -> Answer<proto::SetBalanceResponse> {
        let by = Identity::of(&request);
        let (index, others) = balance::set(&self.shared, request.get_ref(), by).await?;
        Ok(Response::new(proto::SetBalanceResponse {
            header: Some(header::of(&self.shared, index)),
            default_mode: mode::to_message(others).into(),
        }))
    }
}

const AGENTS: &str = "switch_agents";
const BALANCES: &str = "leaf_balances";
