package dp

import (
	"fmt"
	"math"
	"slices"
	"sync"
)

// loss holds the costs of one release of an event. Each is computed when first asked for and kept.
// Safe for concurrent use.
type loss struct {
	event Event  // with Count 1
	id    uint32 // unique within one meter; 0 outside

	curve   func() (renyiCurve, error) // Rényi divergences, see rdp.go
	standIn func() *loss               // the Gaussian that dominates the event, see skellam.go
	pld     func() *gaussianLoss       // the distribution of the privacy loss, see pld.go; nil: none
}

func newLoss(e Event, id uint32) *loss {
	e.Count = 1
	return &loss{
		event:   e,
		id:      id,
		curve:   sync.OnceValues(func() (renyiCurve, error) { return eventCurve(e) }),
		standIn: sync.OnceValue(func() *loss { return newLoss(gaussianStandIn(e), 0) }),
		pld:     sync.OnceValue(func() *gaussianLoss { return eventLoss(e) }),
	}
}

// term is count releases of the same event.
type term struct {
	loss  *loss
	count int
}

// composition is a list of distinct events in the order of Event.compare.
// The order makes every sum over it independent of the order of charging.
type composition []term

// add returns the composition with e added in place. It calls intern for the loss of an event that
// the composition does not hold yet.
func (c composition) add(e Event, intern func(Event) *loss) (composition, error) {
	i, found := slices.BinarySearchFunc(c, e, func(t term, e Event) int { return t.loss.event.compare(e) })
	if !found {
		return slices.Insert(c, i, term{intern(e), e.Count}), nil
	}
	if c[i].count > math.MaxInt-e.Count {
		return nil, fmt.Errorf("dp: %d and %d more releases of one %s event are too many to count", c[i].count, e.Count, e.Mechanism)
	}
	c[i].count += e.Count
	return c, nil
}

// compose validates events and puts them in canonical form.
func compose(events []Event) (composition, error) {
	c := make(composition, 0, len(events))
	for i, e := range events {
		if err := e.Validate(); err != nil {
			return nil, fmt.Errorf("event %d: %w", i, err)
		}
		var err error
		if c, err = c.add(e, func(e Event) *loss { return newLoss(e, 0) }); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c composition) first(f func(Mechanism) bool) (Mechanism, bool) {
	for _, t := range c {
		if f(t.loss.event.Mechanism) {
			return t.loss.event.Mechanism, true
		}
	}
	return "", false
}
