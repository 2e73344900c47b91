//! Every row of what only the leader knows, for those who follow it. Where no leader answers there are none: what another replica
//! has planned is not what the leader has. Knows no stream.

use tonic::Status;
use weft_proto::v1 as proto;

use super::super::{Answer, refusal};
use super::leader::{self, Leader};
use super::{Asked, Service, job, link};

impl Service {
    /// The plan of every job, as the leader has it.
    ///
    /// # Errors
    /// UNAVAILABLE: no leader answers.
    pub(in crate::operator) async fn every_job_plan(&self) -> Result<Vec<proto::JobPlan>, Status> {
        every(|page_token| self.leaders_job_plans(page_token)).await
    }

    /// The status of every link, as the leader sees it.
    ///
    /// # Errors
    /// UNAVAILABLE: no leader answers.
    pub(in crate::operator) async fn every_link_status(
        &self,
    ) -> Result<Vec<proto::LinkStatus>, Status> {
        every(|page_token| self.leaders_link_statuses(page_token)).await
    }

    async fn leaders_job_plans(
        &self,
        page_token: String,
    ) -> Result<(Vec<proto::JobPlan>, String), Status> {
        let page = match leader::leader(&self.way)? {
            Leader::Here => {
                let asked = Asked::read(job::JOB_PLANS, &page_token, PAGE_SIZE)?;
                leader::as_leader(&self.shared, self.job_plans(asked)).await?
            }
            Leader::There(mut leader) => {
                let request = proto::ListJobPlansRequest {
                    page_size: PAGE_SIZE,
                    page_token,
                };
                page(leader.list_job_plans(request).await)?
            }
        };
        Ok((page.job_plans, page.next_page_token))
    }

    async fn leaders_link_statuses(
        &self,
        page_token: String,
    ) -> Result<(Vec<proto::LinkStatus>, String), Status> {
        let page = match leader::leader(&self.way)? {
            Leader::Here => {
                let asked = Asked::read(link::STATUSES, &page_token, PAGE_SIZE)?;
                leader::as_leader(&self.shared, self.link_statuses(asked)).await?
            }
            Leader::There(mut leader) => {
                let request = proto::ListLinkStatusesRequest {
                    page_size: PAGE_SIZE,
                    page_token,
                };
                page(leader.list_link_statuses(request).await)?
            }
        };
        Ok((page.link_statuses, page.next_page_token))
    }
}

/// The rows of all pages; `page` gives those of one, and the token of the next.
async fn every<Row, Page>(page: impl Fn(String) -> Page) -> Result<Vec<Row>, Status>
where
    Page: Future<Output = Result<(Vec<Row>, String), Status>>,
{
    let (mut all, mut page_token) = (Vec::new(), String::new());
    loop {
        let (rows, next) = page(page_token).await?;
        all.extend(rows);
        if next.is_empty() {
            return Ok(all);
        }
        page_token = next;
    }
}

/// The page that the leader answered.
fn page<T>(answer: Answer<T>) -> Result<T, Status> {
    let answer = leader::if_there(answer).ok_or_else(refusal::nobody_leads)?;
    Ok(answer?.into_inner())
}

/// As many rows as a page has at most.
const PAGE_SIZE: i32 = 10_000;
