package store

import "github.com/fedsim/fedsim/node/admission"

// registryKind is the log of an admission.Registry, which belongs to a federation.
func registryKind(f *admission.Federation) Kind { return Kind{"fedsim-registry-v1", f.Hash()} }

// CreateRegistry makes the file of an empty registry, once: a second one would not know
// who redeemed which invitation. See CreateLog.
func CreateRegistry(path string, f *admission.Federation) error {
	return CreateLog(path, registryKind(f))
}

// OpenRegistry opens the log of a federation's registry, for admission.OpenRegistry. See OpenLog for what is refused.
func OpenRegistry(path string, f *admission.Federation) (Log, error) {
	return OpenLog(path, registryKind(f))
}
