//! What others build upon: the JSON that weftd says of itself, and clients in other languages.

use std::process::Command;

use super::{Arguments, pass};
use crate::{
    failure::Failure,
    packages,
    programs::{Programs, root},
};

/// Every path of the document, asked for with what fits it and with what does not.
pub(super) fn openapi(_: &Arguments) -> Result<(), Failure> {
    packages::install(&[&packages::CLIENTS])?;
    pass(
        check("openapi")
            .arg(Programs::build()?.path("weftd")?)
            .arg("60"),
    )
}

/// The Python wheel, its types, tests and story; Go stubs that compile.
pub(super) fn clients(_: &Arguments) -> Result<(), Failure> {
    packages::install(&[&packages::CLIENTS])?;
    pass(check("python").arg(Programs::build()?.path("weftd")?))?;
    pass(&mut check("go"))
}

/// A folder of the contract has a check of its own, to be run by hand too.
fn check(folder: &str) -> Command {
    Command::new(root().join("proto").join(folder).join("check.sh"))
}
