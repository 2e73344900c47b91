//! The configuration of the small replica.

use tonic::{Request, Response, Status};
use weft_proto::v1::{self as proto, config_service_server as config_server};

use super::{Answer, Replica, header};

#[tonic::async_trait]
impl config_server::ConfigService for Replica {
    async fn reload_config(
        &self,
        request: Request<proto::ReloadConfigRequest>,
    ) -> Answer<proto::ReloadConfigResponse> {
        let request = request.into_inner();
        if request.text() == "same" {
            return Ok(Response::new(proto::ReloadConfigResponse::default()));
        }
        if self.hold_secs == "bad" {
            return Err(Status::invalid_argument("weft.toml: hold_secs: bad"));
        }
        if request.text() == "asn = 0\n" {
            let reason = format!("{}: bgp.asn: AS 0 is reserved", request.text_name);
            return Err(Status::invalid_argument(reason));
        }
        if request.text().starts_with("asm") {
            let name = request.text_name;
            let reason = format!("{name}: line 1\n  |\n1 | asm\u{7}\n  | ^^^\n");
            return Err(Status::invalid_argument(reason));
        }
        let changed = proto::ConfigChange {
            subject: "peer_group leaves".to_owned(),
            change_type: proto::ChangeType::Updated.into(),
            key: Some("hold_secs".to_owned()),
            old_value: Some("9".to_owned()),
            new_value: Some("30".to_owned()),
            effect: proto::ConfigEffect::SessionReset.into(),
        };
        let removed = proto::ConfigChange {
            subject: "peer 192.0.2.1".to_owned(),
            change_type: proto::ChangeType::Deleted.into(),
            effect: proto::ConfigEffect::Applied.into(),
            ..proto::ConfigChange::default()
        };
        Ok(Response::new(proto::ReloadConfigResponse {
            header: header(self.id),
            changes: vec![changed, removed],
            change_count: 2,
            file: Some("weft.toml".to_owned()),
        }))
    }

    async fn list_config_values(
        &self,
        request: Request<proto::ListConfigValuesRequest>,
    ) -> Answer<proto::ListConfigValuesResponse> {
        let request = request.into_inner();
        let value = |key: &str, value: &str, source: proto::ConfigSource| proto::ConfigValue {
            subject: request.subject().to_owned(),
            key: key.to_owned(),
            value: value.to_owned(),
            source: source.into(),
        };
        let (group, default) = (proto::ConfigSource::PeerGroup, proto::ConfigSource::Default);
        let (values, next) = match (request.page_token.as_str(), request.with_defaults) {
            ("", _) => (vec![value("hold_secs", self.hold_secs, group)], "second"),
            (_, true) => (vec![value("strict", "false", default)], ""),
            (_, false) => (Vec::new(), ""),
        };
        let range = request.subject.is_none().then(|| proto::ConfigValue {
            subject: "listen_range 198.51.100.0/24".to_owned(),
            ..value("peer_group", "leaves", group)
        });
        let values = values.into_iter().chain(range).collect();
        Ok(Response::new(proto::ListConfigValuesResponse {
            header: header(self.id),
            values,
            next_page_token: next.to_owned(),
            ..Default::default()
        }))
    }
}
