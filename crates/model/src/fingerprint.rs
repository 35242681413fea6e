//! The conformance fingerprint: one hash over the software and firmware that decide whether two nodes behave alike.

use sha2::{Digest as _, Sha256};

/// What goes into a fingerprint. Hardware that does not exist has the value `none`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inputs<'a> {
    pub gpu_driver: &'a str,
    pub nic_firmware: &'a str,
    pub bios: &'a str,
    pub bmc: &'a str,
    pub kernel: &'a str,
    /// Kernel parameters in any order.
    pub kernel_params: &'a [&'a str],
    pub image: &'a str,
}

impl Inputs<'_> {
    /// The fingerprint in lower-case hexadecimal.
    pub fn hash(&self) -> String {
        let mut params = self.kernel_params.to_vec();
        params.sort_unstable();
        let params = params.join(" ");
        let mut hasher = Sha256::new();
        for (name, value) in [
            ("gpu_driver", self.gpu_driver),
            ("nic_firmware", self.nic_firmware),
            ("bios", self.bios),
            ("bmc", self.bmc),
            ("kernel", self.kernel),
            ("kernel_params", &params),
            ("image", self.image),
        ] {
            hasher.update(format!("{name}={value}\n"));
        }
        hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn b40_published_example() {
        let inputs = super::Inputs {
            gpu_driver: "550.54.15",
            nic_firmware: "28.39.1002",
            bios: "2.1.0",
            bmc: "1.14",
            kernel: "6.8.0-31",
            kernel_params: &["quiet", "hugepages=64", "iommu=pt"],
            image: "none",
        };
        assert_eq!(inputs.hash(), "3e4568ca281172ef7702213ecf1a8ffd213181ca5f8983f33984b3a84032a9a4");
    }
}
