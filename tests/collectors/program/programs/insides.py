"""Programs that inspect or change functions hooked by the recorder."""

from __future__ import annotations

from tests.collectors.program.programs.cases import case

INSIDES = (
    case(
        "a capture begun by the base class",
        """
        g = G()
        G.__base__.capture_begin(g)
        g.capture_end()
        g.replay()
        h = captured()
        print("well")
        """,
    ),
    case(
        "a class of graphs with its own ways",
        """
        class Mine(G):
            __slots__ = ()
            def __setattr__(self, name, value): raise AttributeError(name)
            def replay(self):
                print("mine")
                super().replay()
        captured(Mine()).replay()
        """,
    ),
    case(
        "a capture that fails",
        """
        with torch.cuda.graph(G()):
            torch.capturing = "broken"
        """,
    ),
    case(
        "a forward that fails",
        """
        class Inner(torch.nn.Module):
            def forward(self, x): return 1 / x
        class Net(torch.nn.Module):
            inner = Inner()
            def forward(self, x): return self.inner(x)
        net = Net()
        for x in (5, 4, 3, 2, 1, 0): net(x)
        """,
        runs=1,
    ),
    *(
        case(
            f"a module {name} next to the program",
            f"""
            captured().replay()
            print("torch is there")
            import {name}
            print({name}.VALUE)
            """,
            files={f"{name}.py": "print('imported by the program')\nVALUE = 5\n"},
            runs=0,
        )
        for name in ("collectors", "graphviz_dash", "msgspec")
    ),
    case(
        "an error while collections are frequent",
        """
        import gc
        captured().replay()
        gc.set_threshold(1)
        def fail(): return [] + {}[()]
        fail()
        """,
    ),
    case(
        "calls that a base class and others have made their own",
        """
        calls = []
        class Base(torch.nn.Module):
            def __call__(self, *args):
                calls.append("base")
                return super().__call__(*args)
        class Net(Base):
            def forward(self): calls.append("forward")
        net = Net()
        for _ in range(6): net()
        original = torch.nn.Module.__call__
        def counted(self, *args):
            calls.append("counted")
            return original(self, *args)
        torch.nn.Module.__call__ = counted
        for _ in range(6): net()
        torch.optim.SGD().step()
        for _ in range(6): net()
        print(torch.nn.Module.__call__ is counted, len(calls), calls[-3:])
        """,
    ),
    case(
        "a replay replaced by the program",
        """
        replays = []
        original = G.replay
        def own(self):
            replays.append(self)
            original(self)
        g = captured()
        G.replay = own
        for _ in range(3): g.replay()
        print(len(replays), G.replay is own)
        """,
    ),
    case(
        "warnings",
        """
        import warnings
        def old():
            warnings.warn("old", UserWarning, stacklevel=2)
        for _ in range(2):
            old()
            captured()
        warnings.simplefilter("error")
        captured()
        """,
    ),
    case(
        "logging of everything",
        """
        import logging
        logging.basicConfig(level=logging.DEBUG)
        captured()
        logging.debug("own")
        """,
    ),
    case(
        "traced by itself",
        """
        lines = []
        def own(frame, event, arg):
            if frame.f_code.co_filename.endswith("train.py"): lines.append(event)
            return own
        sys.settrace(own)
        captured().replay()
        sys.settrace(None)
        print(len(lines))
        """,
    ),
    case(
        "copies",
        """
        import copy, pickle
        class Net(torch.nn.Module):
            def forward(self): return 1
        net = Net()
        for _ in range(6): net()
        again = pickle.loads(pickle.dumps(copy.deepcopy(net)))
        print(again(), vars(again))
        """,
    ),
)
