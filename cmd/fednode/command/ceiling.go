package command

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/node"
)

// ceiling is the most that the sessions within any period of that length may cost.
type ceiling struct {
	epsilon float64
	period  time.Duration
	text    string
}

func (c ceiling) String() string { return c.text }

const day = 24 * time.Hour

// periodUnits are the letters behind the number of a period.
var periodUnits = map[string]time.Duration{"h": time.Hour, "d": day, "w": 7 * day}

var errCeiling = errors.New("an epsilon and a period are needed, like 2/30d; a period is a whole number of hours (h), days (d) or weeks (w), at most 100 years")

func parseCeiling(text string) (ceiling, error) {
	number, period, ok := strings.Cut(text, "/")
	epsilon, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(epsilon > 0) || math.IsInf(epsilon, 1) || period == "" {
		return ceiling{}, errCeiling
	}
	last := len(period) - 1
	n, err := strconv.ParseUint(period[:last], 10, 32)
	unit, known := periodUnits[period[last:]]
	if err != nil || !known || n == 0 || n > uint64(100*366*day/unit) {
		return ceiling{}, errCeiling
	}
	return ceiling{epsilon, time.Duration(n) * unit, fmt.Sprintf("%v/%s", epsilon, period)}, nil
}

// within returns the ceilings, counted as a session counts its own budget.
func (o *consent) within(session dp.Budget) []node.Ceiling {
	var list []node.Ceiling
	for _, c := range o.ceilings {
		b := session
		b.Epsilon = c.epsilon
		list = append(list, node.Ceiling{Budget: b, Period: c.period, Name: c.text})
	}
	return list
}
