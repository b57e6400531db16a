package sim

import (
	"crypto/ed25519"
	"fmt"
	"io"
	"strconv"

	"github.com/fedsim/fedsim/aggregator"
	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
	"github.com/fedsim/fedsim/secagg/graph"
)

// sums makes the two sides of secure sums.
type sums struct {
	aggregator func(protocol.Setup) (aggregator.Sum, error)
	client     func(protocol.ClientID, protocol.Setup) (client.Sum, error)
}

func newSums(cfg Config, from *streams) (sums, error) {
	if cfg.Real {
		return realSums(cfg, from)
	}
	return idealSums(cfg, from), nil
}

func idealSums(cfg Config, from *streams) sums {
	src, tables := from.noise(idealSum), cfg.Tables
	if tables == nil {
		tables = new(noise.Tables)
	}
	join := secagg.IdealClients(cfg.Draw)
	return sums{
		aggregator: func(s protocol.Setup) (aggregator.Sum, error) { return secagg.NewIdeal(s, cfg.Draw, src, tables), nil },
		client:     func(_ protocol.ClientID, s protocol.Setup) (client.Sum, error) { return join(s), nil },
	}
}

// realSums returns sums with the whole cryptography, on repeatable secrets.
func realSums(cfg Config, from *streams) (sums, error) {
	params := secagg.Params{Mode: cfg.Mode, Rounds: cfg.Rounds}
	identities := make([]ed25519.PrivateKey, len(cfg.Trainers))
	if cfg.Mode == graph.Active {
		params.Identities = make([]ed25519.PublicKey, len(identities))
		for i := range identities {
			seed := make([]byte, ed25519.SeedSize)
			if _, err := io.ReadFull(from.keys(clientName(i)).Stream("identity", 0), seed); err != nil {
				return sums{}, err
			}
			identities[i] = ed25519.NewKeyFromSeed(seed)
			params.Identities[i] = identities[i].Public().(ed25519.PublicKey)
		}
	}
	agreements, parties := new(secagg.Agreements), make([]*secagg.Party, len(cfg.Trainers))
	s := sums{
		aggregator: func(s protocol.Setup) (aggregator.Sum, error) {
			a, err := secagg.NewAggregator(s, params)
			if err == nil {
				a.Use(agreements)
			}
			return a, err
		},
		client: func(id protocol.ClientID, s protocol.Setup) (client.Sum, error) { return parties[id].Join(s) },
	}
	for i := range parties {
		var err error
		parties[i], err = secagg.NewParty(secagg.PartyConfig{
			ID: protocol.ClientID(i), Session: cfg.Session, Params: params, Entropy: from.keys(clientName(i)), Identity: identities[i],
			Agreements: agreements,
		})
		if err != nil {
			return sums{}, fmt.Errorf("client %d: %w", i, err)
		}
	}
	return s, nil
}

const idealSum = "ideal-sum"

func clientName(i int) string { return "client/" + strconv.Itoa(i) }
