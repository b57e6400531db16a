// Command print is what the tests build with one set of flags after another.
package main

import (
	"fmt"

	"github.com/fedsim/fedsim/internal/version"
)

func main() { fmt.Println(version.Get()) }
