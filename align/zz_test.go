package align
import ("testing";"time";"github.com/fedsim/fedsim/protocol";"github.com/gtank/ristretto255";"github.com/fedsim/fedsim/entropy/simulated")
func TestZZ(t *testing.T){ const parties, each=10, 10000
 lists:=make([][]string,parties); for k:=range lists{lists[k]=numbered(k*each/2,k*each/2+each)}
 r:=newRing(t,lists); r.run=protocol.Workers(2)
 s,_:=drawScalar(simulated.New(1,"s").Stream("x",0)); pts:=make([]*ristretto255.Element,each); for i:=range pts{pts[i]=hash([]byte{byte(i),byte(i>>8)},[]byte(suite))}
 fl:=func() float64{t0:=time.Now(); for range parties*(parties+1)/2 {protocol.Workers(2).Each(each,func(i int){pts[i].ScalarMult(s,pts[i])})}; return time.Since(t0).Seconds()}
 a:=fl(); t0:=time.Now(); if err:=r.align();err!=nil{t.Fatal(err)}; w:=time.Since(t0).Seconds(); b:=fl()
 r.check(); t.Logf("whole %.1f floor %.1f ratio %.3f",w,a+b,w/(a+b)) }
