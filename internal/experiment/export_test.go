package experiment

import "github.com/fedsim/fedsim/protocol"

// SessionID derives the session anew, of what a test has changed.
func (e *Experiment) SessionID() protocol.SessionID { return e.sessionID() }
