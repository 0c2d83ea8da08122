//! An event that arrived, as one line of structured CloudEvents JSON.

use crate::received::Received;

use super::{field, finish, is_reserved};

impl Received {
    /// The event as one structured CloudEvents JSON object, without a line break. It has the form that
    /// [`Envelope::to_json_line`](crate::Envelope::to_json_line) writes. Attributes that did not arrive are absent.
    #[must_use]
    pub fn to_json_line(&self) -> Vec<u8> {
        let all = [
            ("specversion", Some("1.0".to_owned())),
            ("id", Some(self.event_id.to_string())),
            ("source", Some(self.source.clone())),
            ("type", Some(self.event_type.clone())),
            ("time", self.occurred_at.map(|at| at.to_string())),
            ("subject", self.key.clone()),
            ("partitionkey", self.key.clone()),
            ("datacontenttype", Some(self.content_type.clone())),
            ("traceparent", self.headers.get("traceparent").cloned()),
            ("correlationid", self.correlation_id.clone()),
            ("causationid", self.causation_id.clone()),
            ("tenantid", self.tenant.clone()),
            ("executionid", self.execution_id.clone()),
            ("pillarboxhlc", self.hlc.map(|hlc| hlc.to_string())),
            ("pillarboxlane", self.lane.as_ref().map(|(lane, _)| lane.clone())),
            ("pillarboxfence", self.lane.as_ref().map(|(_, fence)| fence.0.to_string())),
        ];
        let mut line = Vec::with_capacity(self.payload.len() + 512);
        for (name, value) in all {
            if let Some(value) = value {
                field(&mut line, name, &value);
            }
        }
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let headers = headers.filter(|(name, _)| !is_reserved(name));
        finish(line, headers, &self.content_type, &self.payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Headers;
    use crate::received::Attributes;

    fn received(extra: &[(&str, &str)], headers: &[(&str, &str)], payload: &[u8]) -> Received {
        let mut attributes: Attributes = [
            ("specversion", "1.0"),
            ("id", "01932c07-a9f0-7000-8000-000000000001"),
            ("type", "order.placed"),
            ("source", "/shop"),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .into();
        attributes.extend(extra.iter().map(|(name, value)| ((*name).into(), (*value).into())));
        let headers: Headers =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Received::decode(attributes, headers, payload.to_vec()).unwrap()
    }

    fn parsed(received: &Received) -> serde_json::Value {
        let line = received.to_json_line();
        assert!(!line.contains(&b'\n'));
        serde_json::from_slice(&line).unwrap()
    }

    #[test]
    fn a_line_has_what_arrived_and_nothing_else() {
        let extra = [
            ("subject", "o-7"),
            ("correlationid", "c"),
            ("pillarboxlane", "orders/3"),
            ("pillarboxfence", "9"),
        ];
        let line = parsed(&received(&extra, &[("shop", "north"), ("X-Odd", "1")], b"{\n \"id\": 7.10 }"));
        assert_eq!(line["subject"], "o-7");
        assert_eq!((&line["correlationid"], &line["shop"]), (&"c".into(), &"north".into()));
        assert_eq!((&line["pillarboxlane"], &line["pillarboxfence"]), (&"orders/3".into(), &"9".into()));
        assert_eq!(
            (&line["data"]["id"], &line["pillarboxheaders"]),
            (&7.1.into(), &r#"{"X-Odd":"1"}"#.into())
        );
        assert!(line.get("time").is_none() && line.get("pillarboxseq").is_none());
    }

    #[test]
    fn what_is_not_json_is_base64() {
        let line = parsed(&received(&[("datacontenttype", "application/x-number")], &[], &[0xff, 0x00]));
        assert_eq!((&line["data_base64"], line.get("data")), (&"/wA=".into(), None));
    }
}
