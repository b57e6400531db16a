package protocol

// Culprit is a client that has been proved to have broken the protocol, and by what.
type Culprit struct {
	Client ClientID
	Err    error
}
