//! The declared fabric as the reflector takes it from facts: what changes in it, for watchers. Knows no route.

use bytes::Bytes;

use super::Reflector;
use crate::fabric::declared::Changed;
use crate::fabric::fact::{Fact, InvalidFabric, Kind};
use crate::ledger::Head;

impl Reflector {
    /// Takes the fabric as such. If another slot comes into force, all that differs in it changes at once.
    pub(super) fn put_head(&mut self, head: Option<Head>) {
        let declared = &mut self.control_mut().declared;
        let (before, slot) = (declared.topology().clone(), declared.slot());
        declared.put_head(head);
        if slot == declared.slot() {
            return;
        }
        let after = declared.topology().clone();
        for change in before.changes_to(&after) {
            let (kind, name) = change.subject();
            self.note_change(before.fact(kind, name), after.fact(kind, name));
        }
    }

    /// Takes a resource of the declared fabric as it is stored, or forgets it.
    pub(super) fn change_declared(
        &mut self,
        slot: u64,
        kind: Kind,
        name: &str,
        value: Option<&Bytes>,
    ) -> Result<(), InvalidFabric> {
        let declared = &mut self.control_mut().declared;
        let before = declared.topology().fact(kind, name);
        match value {
            None => declared.delete(slot, kind, name),
            Some(value) => declared.put(slot, kind, name, value)?,
        }
        let after = declared.topology().fact(kind, name);
        self.note_change(before, after);
        Ok(())
    }

    /// Takes a job as it is stored, or forgets it.
    pub(super) fn change_job(
        &mut self,
        name: &str,
        value: Option<&Bytes>,
    ) -> Result<(), InvalidFabric> {
        let declared = &mut self.control_mut().declared;
        let before = declared.topology().fact(Kind::Job, name);
        match value {
            None => declared.delete_job(name),
            Some(value) => declared.put_job(name, value)?,
        }
        let after = declared.topology().fact(Kind::Job, name);
        self.note_change(before, after);
        Ok(())
    }

    /// Notes the change of a declared fact for watchers, if it is one.
    pub(super) fn note_change(&mut self, before: Option<Fact>, after: Option<Fact>) {
        if before == after {
            return;
        }
        let octets = |fact: &Option<Fact>| fact.as_ref().map_or(0, |it| it.encode().len());
        self.changed.push(Changed {
            revision: self.index,
            octets: CHANGED_OCTETS + octets(&before) + octets(&after),
            before,
            after,
        });
    }

    /// Forgets a slot. Of the one in force every resource goes.
    pub(super) fn delete_slot(&mut self, slot: u64) -> Result<(), InvalidFabric> {
        let declared = &mut self.control_mut().declared;
        if slot != declared.slot() {
            declared.delete_stage(slot);
            return Ok(());
        }
        declared.mark(slot, false);
        let facts: Vec<Fact> = declared.topology().facts().collect();
        for fact in facts.iter().filter(|fact| fact.kind() != Kind::Job) {
            self.change_declared(slot, fact.kind(), fact.name(), None)?;
        }
        Ok(())
    }
}

/// Octets of memory that a change takes beside its facts: two facts and their names.
const CHANGED_OCTETS: usize = 512;
