package settings

import (
	"fmt"
	"slices"
	"strings"

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

// OneOf checks a setting against the words of its key.
func (e *Problems) OneOf(k config.TextKey, x string) {
	if !slices.Contains(k.Words, x) {
		e.Add("%s is %q; it must be one of %s", k.Name, x, strings.Join(k.Words, ", "))
	}
}

// AtLeast checks that x, a setting of the given name, is not below least.
func (e *Problems) AtLeast(name string, x, least int) {
	if x < least {
		e.Add("%s is %d; it must be at least %d", name, x, least)
	}
}

// WithinOrZero checks a setting against the range of its key, unless it is zero and not needed.
func (e *Problems) WithinOrZero(k config.NumberKey, x float64, needed bool) {
	if needed || x != 0 {
		e.Within(k, x)
	}
}
