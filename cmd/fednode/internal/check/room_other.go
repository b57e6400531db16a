//go:build !linux && !darwin

package check

// freeRoom does not know how much is left on the disk of a folder.
func freeRoom(string) (free uint64, known bool) { return 0, false }
