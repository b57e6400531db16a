package protocol

// Rosters and deliveries of very many clients would take much memory while they wait to be sent. So they may wait
// without their long parts, and load these when they are sent.

// IsWhole reports whether a message has all its parts. Only a message that has may be encoded.
func IsWhole(m Message) bool {
	switch m := m.(type) {
	case *Roster:
		return m == nil || m.Load == nil
	case *Delivery:
		return m == nil || m.Load == nil
	case *Announce:
		return IsWhole(m.Delivery)
	case *Survivors:
		return IsWhole(m.Next)
	case *Forward:
		return IsWhole(m.Message)
	default:
		return true
	}
}

// Whole returns a message with all its parts: the message itself if it has them. It may be called by any goroutine.
// An error says that a part cannot be loaded; it is fs.ErrClosed if the part is not of use any more.
func Whole(m Message) (Message, error) {
	if IsWhole(m) {
		return m, nil
	}
	switch m := m.(type) {
	case *Roster:
		return m.Load()
	case *Delivery:
		return m.Load()
	case *Announce:
		d, err := m.Delivery.Load()
		return &Announce{Plan: m.Plan, Delivery: d, Anew: m.Anew}, err
	case *Survivors:
		with := *m
		var err error
		with.Next, err = m.Next.Load()
		return &with, err
	case *Forward:
		with := *m
		var err error
		with.Message, err = Whole(m.Message)
		return &with, err
	default:
		return m, nil
	}
}
