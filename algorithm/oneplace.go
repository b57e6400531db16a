package algorithm

import (
	"errors"

	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// OnePlace makes the federated methods of an [Instance] return an error. Algorithms without
// clients embed it.
type OnePlace struct{}

var errOnePlace = errors.New("all data are in one place; there is no federation")

// Strategy returns an error: there is no server.
func (OnePlace) Strategy(protocol.SessionID) (Strategy, error) { return nil, errOnePlace }

// ClientSide returns an error: there are no clients.
func (OnePlace) ClientSide() (ClientSide, error) { return nil, errOnePlace }

// Party returns an error: there are no parties.
func (OnePlace) Party(PartyData, *LocalData) (*Party, error) { return nil, errOnePlace }

// Shared returns an error: no server shares a model.
func (OnePlace) Shared([]byte) ([]model.Embeddings, error) { return nil, errOnePlace }
