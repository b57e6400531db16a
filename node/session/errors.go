package session

import "errors"

// The rules of admission that a peer can break.
var (
	// ErrNotEnrolled: the peer is not on the enrolment list, or was revoked.
	ErrNotEnrolled = errors.New("node: not enrolled in this federation")
	// ErrRole: the peer registered for a role it is not enrolled for.
	ErrRole = errors.New("node: enrolled for another role")
	// ErrProtocol: this peer may not use this protocol.
	ErrProtocol = errors.New("node: not for this peer")
	// ErrRefused: the aggregator refuses a message, and says why. The party may ask again, unless
	// the aggregator says that this would not help.
	ErrRefused = errors.New("node: the aggregator refuses")
	// ErrSession: the session's description is not valid.
	ErrSession = errors.New("node: the description of the session does not hold")
)
