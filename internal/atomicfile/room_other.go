//go:build !linux && !darwin

package atomicfile

// Free does not know how much is left on the disk of a folder.
func Free(string) (bytes uint64, known bool) { return 0, false }
