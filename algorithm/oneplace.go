package algorithm

import (
	"errors"

	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// OnePlace is what an Instance without clients has not: one that embeds it refuses every
// question about a federation.
type OnePlace struct{}

var errOnePlace = errors.New("all data are in one place; there is no federation")

// Strategy implements [Instance].
func (OnePlace) Strategy(protocol.SessionID) (Strategy, error) { return nil, errOnePlace }

// ClientSide implements [Instance].
func (OnePlace) ClientSide() (ClientSide, error) { return nil, errOnePlace }

// Party implements [Instance].
func (OnePlace) Party(PartyData, *LocalData) (*Party, error) { return nil, errOnePlace }

// Shared implements [Instance].
func (OnePlace) Shared([]byte) ([]model.Embeddings, error) { return nil, errOnePlace }
