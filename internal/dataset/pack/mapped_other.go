//go:build !unix

package pack

import "os"

func mapFile(name string) ([]byte, error) { return os.ReadFile(name) }
