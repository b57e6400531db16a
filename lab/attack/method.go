package attack

import (
	"context"

	"github.com/fedsim/fedsim/lab/page"
)

// method holds everything that a kind of attack brings. Each stands in the file that measures its kind.
type method struct {
	kind    Kind
	about   string                    // the secret, for the report
	how     func(r *Report) string    // the runs and the attacker's knowledge, for the report
	targets int                       // the default number
	runs    func(Config, Epsilon) int // simulated for a budget
	measure func(*attacker, context.Context, *At) error
	has     func(*At) bool       // the results of this kind are there
	head    []string             // of the table
	rows    func(*At) [][]string // without the budget
	figures func(list []*Report, budgets []Epsilon) []page.Drawn
}

// methods returns the methods of all kinds, in the order of pages.
func methods() []method {
	return []method{userMembership(), ratingMembership(), attributes(), reconstruction()}
}

// Kinds returns all kinds.
func Kinds() []Kind {
	var list []Kind
	for _, m := range methods() {
		list = append(list, m.kind)
	}
	return list
}

// method returns the method of a kind. ok is false if there is no such kind.
func (k Kind) method() (m method, ok bool) {
	for _, m := range methods() {
		if m.kind == k {
			return m, true
		}
	}
	return method{}, false
}
