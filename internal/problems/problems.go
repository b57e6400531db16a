// Package problems collects what is wrong with a value, so that its author hears of all of it at once.
package problems

import "fmt"

// List is a list of errors, for [errors.Join].
type List []error

// Add adds an error of the given form.
func (l *List) Add(format string, args ...any) { *l = append(*l, fmt.Errorf(format, args...)) }

// If adds an error of the given form if a condition holds.
func (l *List) If(holds bool, format string, args ...any) {
	if holds {
		l.Add(format, args...)
	}
}
