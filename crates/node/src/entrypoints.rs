//! What runs in place of an image's own program.
//!
//! Images are not pulled here, so a container that names no command has nothing to run. Somebody who knows what the
//! image would have run can say so, once for the machine, and manifests that rely on it work unchanged.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;

/// Commands by image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entrypoints(BTreeMap<String, Vec<String>>);

impl Entrypoints {
    /// Runs a line of shell for an image. The container's `args` are the line's own arguments.
    ///
    /// # Errors
    /// When the text is not `IMAGE=COMMAND`.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        let (image, line) = text
            .split_once('=')
            .map(|(image, line)| (image.trim(), line.trim()))
            .filter(|(image, line)| !image.is_empty() && !line.is_empty())
            .ok_or_else(|| {
                format!("{text:?}: write IMAGE=COMMAND, for example registry.example/tool=/usr/bin/tool")
            })?;
        let command = ["/bin/sh", "-c", &format!("{line} \"$@\""), image].map(str::to_owned);
        self.0.insert(image.to_owned(), command.into());
        Ok(())
    }

    /// What a container runs, without its `args`: its own command, or what stands for its image.
    pub(crate) fn command<'a>(&'a self, container: &'a Container) -> &'a [String] {
        let own = container.command.as_deref().unwrap_or_default();
        if !own.is_empty() {
            return own;
        }
        let image = container.image.as_deref().unwrap_or_default();
        let known = self.0.get(image).or_else(|| self.0.get(name(image)));
        known.map_or(&[], Vec::as_slice)
    }
}

/// An image without its tag and digest.
fn name(image: &str) -> &str {
    let image = image.split_once('@').map_or(image, |(name, _)| name);
    match image.rsplit_once(':') {
        // A colon before a slash belongs to the port of the registry.
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(image: &str, command: &[&str]) -> Container {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        Container { image: Some(image.into()), command: Some(command), ..Container::default() }
    }

    #[test]
    fn an_image_is_known_by_its_name_whatever_its_tag() {
        let mut known = Entrypoints::default();
        known.add("r:5000/tool=cp a \"$TARGET\"").unwrap();
        for (image, runs) in [
            ("r:5000/tool", true),
            ("r:5000/tool:1", true),
            ("r:5000/tool@sha256:0", true),
            ("r:5000/tool:1@sha256:0", true),
            ("r:5000/tools", false),
            ("tool", false),
            ("", false),
        ] {
            assert_eq!(!known.command(&container(image, &[])).is_empty(), runs, "{image}");
        }
        assert_eq!(
            known.command(&container("r:5000/tool", &[])),
            ["/bin/sh", "-c", "cp a \"$TARGET\" \"$@\"", "r:5000/tool"]
        );
        assert_eq!(known.command(&container("r:5000/tool", &["mine"])), ["mine"]);
    }

    #[test]
    fn what_is_no_pair_is_refused() {
        for text in ["", "image", "=x", "image=", " = "] {
            assert!(Entrypoints::default().add(text).is_err(), "{text:?}");
        }
    }
}
