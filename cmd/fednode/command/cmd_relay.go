package command

import (
	"context"
	"errors"

	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/hub"
)

// relayCmd is fednode relay. It keeps nothing on disk.
type relayCmd struct {
	Key        string   `required:"" placeholder:"FILE" help:"Its own key, whose public half the aggregator is given as --relay."`
	Federation string   `required:"" placeholder:"FILE" help:"The federation, as the operator founded it."`
	Aggregator []string `required:"" sep:"none" placeholder:"MULTIADDR" help:"Where the aggregator is, as it prints it, /p2p/ and its name included; may be repeated for one with several addresses."`
	Listen     []string `sep:"none" placeholder:"MULTIADDR" help:"Where it listens for clients; may be repeated. Default: port 7946 of all addresses, TCP and QUIC."`
	Ops        string   `placeholder:"ADDRESS" help:"Address on this machine of metrics, health and status, like 127.0.0.1:9467. Default: nowhere."`
	probeFlag
}

func (c *relayCmd) Run(ctx context.Context, s streams) error {
	log := s.log("relay")
	key, err := admission.ReadKey(c.Key)
	if err != nil {
		return err
	}
	federation, err := admission.ReadFile(c.Federation, admission.ParseFederation)
	if err != nil {
		return err
	}
	at, err := aggregatorAt(c.Aggregator)
	if err != nil {
		return err
	}
	listen, err := listenAt(c.Listen)
	if err != nil {
		return err
	}
	monitor, stop, err := c.monitored(ctx, "relay", c.Ops, &log)
	if err != nil {
		return err
	}
	defer stop()
	monitor.Waits("no connection to the aggregator yet")
	r, err := hub.NewRelay(context.WithoutCancel(ctx), hub.RelayConfig{Identity: key, Federation: federation, Aggregator: *at, Listen: listen, Log: log, Observer: monitor})
	if err != nil {
		return occupied(err)
	}
	monitor.Check(r.Check)
	defer r.Close() //nolint:errcheck // nothing is left to be lost
	if err = listening(s.out, r.Addresses()); err != nil {
		return err
	}
	if err = r.RunAndDrain(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	log.Info().Msg("stopped")
	return nil
}
