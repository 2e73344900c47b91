//! What is above spines, where leaves are in pods: the way from one pod to another takes a link up from the spine of the first and
//! one down to the spine of the second, which all leaves of a pod share. It refuses to know switches.

/// Pods of leaves, and what is between them.
#[derive(Debug, Default)]
pub(super) struct Above {
    /// The pod of each leaf, by its place; None: nothing that it sends or takes leaves its pod.
    pod_of: Vec<Option<u32>>,
    /// By pod that sends, then by pod that takes, then by spine: what leads from one to the other, whatever else is there.
    between: Vec<f64>,
    pods: usize,
}

impl Above {
    /// Pods, each with what leads to each pod over each spine.
    pub(super) fn new(pod_of: Vec<Option<u32>>, pods: usize, between: Vec<f64>) -> Self {
        Self {
            pod_of,
            between,
            pods,
        }
    }

    pub(super) fn pods(&self) -> usize {
        self.pods
    }

    /// The pod of a leaf.
    pub(super) fn pod(&self, leaf: u32) -> Option<u32> {
        self.pod_of.get(leaf as usize).copied().flatten()
    }

    /// The pods of two leaves that are in different ones.
    pub(super) fn crossed(&self, from: u32, to: u32) -> Option<[usize; 2]> {
        let (from, to) = (self.pod(from)?, self.pod(to)?);
        (from != to).then_some([from as usize, to as usize])
    }

    /// By spine, what leads from one pod to another.
    pub(super) fn between(&self, [from, to]: [usize; 2], spines: usize) -> &[f64] {
        &self.between[(from * self.pods + to) * spines..][..spines]
    }
}
