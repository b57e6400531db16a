//go:build !unix

package pack

import "os"

// mapFile reads a file as a whole.
func mapFile(name string) ([]byte, error) { return os.ReadFile(name) }
