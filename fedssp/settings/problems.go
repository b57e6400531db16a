package settings

import "fmt"

// Problems collects errors about settings.
type Problems []error

// Add adds an error of the given form.
func (e *Problems) Add(format string, args ...any) { *e = append(*e, fmt.Errorf(format, args...)) }
