//! Whether a pod can be reached, and which of its ports are meant: in the words of a real server and its kubelet.

use serde_json::Value;

use super::log;
use crate::failure::Failure;
use crate::object::meta;
use crate::streams::ws_forward::PORTS;

/// Refuses a pod that nobody runs.
pub(crate) fn is_placed(pod: &Value) -> Result<(), Failure> {
    if log::is_placed(pod) {
        return Ok(());
    }
    Err(Failure::bad_request(format!("pod {} does not have a host assigned", meta(pod, "name"))))
}

/// The ports of a query: one parameter for each, or several in one.
pub(crate) fn ports<'a>(values: impl Iterator<Item = &'a str>) -> Result<Vec<u16>, String> {
    let mut ports = Vec::new();
    for value in values {
        if value.is_empty() {
            return Err("query parameter \"port\" cannot be empty".into());
        }
        for text in value.split(',') {
            let wrong = |why: &str| {
                format!("unable to parse {value:?} as a port: strconv.ParseUint: parsing {text:?}: {why}")
            };
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            match text.parse::<u16>() {
                _ if !is_number => return Err(wrong("invalid syntax")),
                Err(_) => return Err(wrong("value out of range")),
                Ok(0) => return Err(format!("port {value:?} must be > 0")),
                Ok(port) => ports.push(port),
            }
        }
    }
    match ports.len() {
        0 => Err("query parameter \"port\" is required".into()),
        many if many > PORTS => Err(format!("at most {PORTS} ports can be forwarded on one connection")),
        _ => Ok(ports),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_as_a_kubelet_reads_them() {
        let read = |values: &[&str]| ports(values.iter().copied());
        assert_eq!(read(&["80"]), Ok(vec![80]));
        assert_eq!(read(&["80,90", "100"]), Ok(vec![80, 90, 100]));
        for (values, message) in [
            (&[][..], "query parameter \"port\" is required"),
            (&[""], "query parameter \"port\" cannot be empty"),
            (
                &["abc"],
                "unable to parse \"abc\" as a port: strconv.ParseUint: parsing \"abc\": invalid syntax",
            ),
            (
                &["1,-1"],
                "unable to parse \"1,-1\" as a port: strconv.ParseUint: parsing \"-1\": invalid syntax",
            ),
            (&["+1"], "unable to parse \"+1\" as a port: strconv.ParseUint: parsing \"+1\": invalid syntax"),
            (
                &["70000"],
                "unable to parse \"70000\" as a port: strconv.ParseUint: parsing \"70000\": value out of range",
            ),
            (&["0"], "port \"0\" must be > 0"),
        ] {
            assert_eq!(read(values), Err(message.to_owned()));
        }
        let many: Vec<String> = (1..=200).map(|port| port.to_string()).collect();
        assert!(ports([many.join(",")].iter().map(String::as_str)).is_err());
    }
}
