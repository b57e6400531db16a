package experiment

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// The same file drives a simulation and a deployment. Some of its keys are about
// what a simulation makes up, some about what only a deployment has.

// simulationKeys mean something in a simulation alone: who is lost, the connections,
// and what a run is compared with. In a deployment these things happen by themselves,
// or nobody can know them.
func simulationKeys() []string {
	return []string{"dropout", "dropout-at", "leave", "away", "away-rounds", "model.local-passes",
		"network.latency-ms", "network.up-mbps", "network.down-mbps", "network.compute-ms", "network.stage-timeout-s", "baselines"}
}

// deploymentKeys mean something in a deployment alone.
func deploymentKeys() []string { return []string{"deployment.stage-timeout-s", "deployment.gather-s"} }

// publicKeys are those that all parties of a deployment agree on, in the order of
// the file; where its data lie, say, is everybody's own.
func publicKeys() []string {
	private := append(simulationKeys(), "data", "features", "workers", "out", "name")
	return slices.DeleteFunc(Keys(), func(key string) bool { return slices.Contains(private, key) })
}

// Deployed is the experiment as separate machines run it: what only a simulation has
// is at its default, sums are real, and each client draws its own noise. What cannot
// be deployed is a [ConfigError] that lists every reason, one a line.
func (c Config) Deployed() (Config, error) {
	for _, key := range simulationKeys() {
		c.take(key, Defaults())
	}
	k := new(checker)
	switch {
	case c.Secagg == "ideal":
		c.Secagg = "real" // nobody is trusted with adding up
	case c.Secagg == "none":
		k.bad("secagg", "none is a plain sum, which shows what is in it; the sums of a deployment are real")
	}
	if c.NoiseDraw == "sum" {
		c.NoiseDraw = "client"
	}
	switch {
	case !c.Algorithm.Federated():
		k.bad("algorithm", "%s has all ratings in one place; there is nothing to deploy", c.Algorithm)
	case c.Algorithm.Organisations() && c.parties() == 1:
		k.bad("parties", "a party that is alone has nobody to hide among, and needs no deployment; there must be at least 2")
	}
	if c.Noise == "replace" {
		k.bad("noise", "replaced noise shows every sum twice, and is there for comparison only; use split")
	}
	if len(k.list) == 0 {
		k.list = c.problems()
	}
	var errs []error
	for _, p := range k.list {
		errs = append(errs, fmt.Errorf("%s: %s", p.key, p.reason))
	}
	if len(errs) > 0 {
		return c, &ConfigError{errors.Join(errs...)}
	}
	return c, nil
}

// take gives a key the value that it has in another configuration.
func (c *Config) take(key string, from Config) {
	mine, err := field(reflect.ValueOf(c).Elem(), key)
	if err != nil {
		return
	}
	if theirs, err := field(reflect.ValueOf(from), key); err == nil {
		mine.Set(theirs)
	}
}

// text is the value of a key as Set reads it; "" if there is no such key.
func (c Config) text(key string) string {
	f, err := field(reflect.ValueOf(c), key)
	if err != nil {
		return ""
	}
	return fmt.Sprint(f.Interface())
}

// DeploymentWarnings are what a user should know before the experiment is deployed
// although it can be: whom it trusts, and what of it has no effect there, or another one.
func (c Config) DeploymentWarnings() []string {
	var list []string
	if c.Mode != "active" {
		list = append(list, "mode semi-honest trusts the aggregator not to lie in rosters: one that shows a client nothing but keys of its own learns that client's contribution; "+
			"with mode: active clients sign their keys and check them")
	}
	if c.Secagg == "ideal" {
		list = append(list, "secagg ideal is for simulations, where somebody is trusted with adding up: in a deployment sums are real")
	}
	if c.NoiseDraw == "sum" && !c.Algorithm.Organisations() {
		list = append(list, "noise-draw sum is for simulations: in a deployment each client draws its own")
	}
	simulated := simulationKeys()
	unused := slices.DeleteFunc(c.meaningless(), func(key string) bool { return slices.Contains(simulated, key) })
	return slices.Concat(list, c.noEffect(unused, "with "+string(c.Algorithm)), c.noEffect(simulated, "in a deployment"))
}

// noEffect says of those keys that were given that they have no effect somewhere.
func (c Config) noEffect(keys []string, where string) []string {
	var list []string
	for _, key := range keys {
		if c.text(key) != Defaults().text(key) {
			list = append(list, fmt.Sprintf("%s has no effect %s", key, where))
		}
	}
	return list
}
