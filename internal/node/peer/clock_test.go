package peer

import (
	"crypto/x509"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	p2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
)

// libp2p makes the certificate of a QUIC connection, valid from an hour before, and checks the peer's by
// this machine's clock. Neither can be set. If the aggregator is further ahead, QUIC fails with a reason;
// parties dial TCP beside it, which has no certificates.
func TestReasonOfAClockBehindOverQUIC(t *testing.T) {
	t.Parallel()
	key, err := crypto.UnmarshalEd25519PrivateKey(identity(1))
	if err != nil {
		t.Fatal(err)
	}
	for ahead, want := range map[time.Duration]string{0: "", 70 * time.Minute: "which QUIC does not bear. Set both clocks by NTP, or dial the aggregator over TCP"} {
		from := time.Now().Add(ahead - time.Hour)
		id, err := p2ptls.NewIdentity(key, p2ptls.WithCertTemplate(&x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: from.Add(24 * time.Hour)}))
		if err != nil {
			t.Fatal(err)
		}
		config, _ := id.ConfigForPeer("")
		cert, err := x509.ParseCertificate(config.Certificates[0].Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		_, err = p2ptls.PubKeyFromCertChain([]*x509.Certificate{cert})
		if got := (&Conn{}).reason(err); (err == nil) != (want == "") || !strings.Contains(got, want) {
			t.Errorf("an aggregator that is %v ahead: %v, with the reason %q", ahead, err, got)
		}
	}
}
