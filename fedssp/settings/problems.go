package settings

import (
	"fmt"

	"github.com/fedsim/fedsim/config"
)

// Problems collects errors about settings.
type Problems []error

// Add adds an error of the given form.
func (e *Problems) Add(format string, args ...any) { *e = append(*e, fmt.Errorf(format, args...)) }

// Within checks a setting against the range of its key. The range is stated only there.
func (e *Problems) Within(k config.NumberKey, x float64) {
	if !k.Range.Contains(x) {
		e.Add("%s is %v; it must be %s", k.Name, x, k.Range)
	}
}

// AtLeast checks that x, a setting of the given name, is not below least.
func (e *Problems) AtLeast(name string, x, least int) {
	if x < least {
		e.Add("%s is %d; it must be at least %d", name, x, least)
	}
}

// Share checks the share of a release, or of a release that the settings leave out.
func (e *Problems) Share(name string, x float64, released bool) {
	if !(x >= 0 && x < 1) {
		e.Add("the share of %s is %v; it must be from 0 to below 1", name, x)
	} else if released && x == 0 {
		e.Add("the share of %s is 0, but they are released; it must be positive", name)
	}
}
