from __future__ import annotations

import signal
from typing import Final

from tests.attack import doors, files, lives, protocol, retried, reviewed, visits
from tests.attack.attacks import Attack, by_tests

FREEZING: Final = ("hash-of-shared-tuples.pickle", "spaces.dot")
CRASHING: Final = ("nested-tuples.pickle", "nested-tuples-as-value.pickle")
EXHAUSTING: Final = ("empty-lists.json.gz", "generated-columns.sqlite", "empty-events.json.gz")

ATTACKS: Final = (
    Attack("DNS rebinding", "fell: pages, socket, `/api`", doors.foreign_host, is_quick=True),
    Attack(
        "requests, uploads and sockets of another site's page",
        "held, but each asked a server of Amazon for the own address",
        doors.foreign_origin,
    ),
    Attack(
        "framing by another site",
        "fell: told the experiment's name, diverted an upload",
        doors.framing,
        is_quick=True,
    ),
    Attack("upload without the XSRF token", "held", doors.without_token_of_form, is_quick=True),
    Attack("another user of the machine", "fell: no token", doors.local_user),
    Attack("paths that lead out of the folders", "held", doors.paths, is_quick=True),
    Attack("random requests to `/api`", "held", doors.random_requests),
    Attack("some random requests", "held", doors.quick_random_requests, is_quick=True),
    Attack(
        "modules and settings in the working folder",
        "fell: `secrets.py` ran, settings opened the socket",
        lives.working_folder,
    ),
    Attack(
        "names that are not UTF-8, `about.txt` as a pipe or a link",
        "fell: no Overview, a link gave a line of any file",
        lives.try_names_and_descriptions,
    ),
    Attack(
        "modules in the working folder of every command",
        "fell: `import`, `fleet` and `compare` ran `multiprocessing.py`",
        by_tests("tests/app/cli/test_working_folder.py"),
    ),
    Attack(
        "a manifest that claims the hash of another trace",
        "fell: another experiment showed 141 instead of 559 µs",
        by_tests(
            "tests/ingest/test_cache.py", "tests/ingest/test_load.py", "-k", "hash or damaged"
        ),
    ),
    Attack(
        "an open server that contacts others, and its log",
        "fell: asked a server of Amazon, no traceback in the log",
        by_tests("tests/app/cli/test_serve.py", "-k", "traceback or warns"),
    ),
    Attack(
        "an upload's length, cancelled uploads, invented visitors",
        "fell: 1.5 GB for one visitor, uploads blocked for all",
        by_tests("tests/app/hosting/test_upload_limit.py", "tests/app/hosting/test_guard.py"),
    ),
    Attack(
        "children and downloads of a command that is ended",
        "fell: three processes and 210 MB stayed",
        by_tests("tests/importers/test_ended_by_signals.py"),
    ),
    Attack(
        "TORCH_TRACE: blanks, slashes, huge counts, lone surrogates",
        "fell: 14 s to over 120 s, unreadable bundles",
        by_tests("tests/ingest/formats/test_hostile_torch_trace.py"),
    ),
    Attack(
        "writers, pipes and devices for options",
        "fell: `.cal.json` destroyed, commands hung",
        by_tests("tests/bundle/test_files.py"),
    ),
    Attack(
        "files that freeze their reader",
        "fell: 136 bytes stopped the server for all",
        files.hostile(*FREEZING),
        is_quick=True,
    ),
    Attack("files that crash their reader", "fell: the server ended", files.hostile(*CRASHING)),
    Attack("files that exhaust memory", "fell: 1.5 to 3 GB", files.hostile(*EXHAUSTING)),
    Attack("all other hostile files", "fell: a traceback on the page", files.hostile()),
    Attack("pickles that run code", "held", files.code_in_pickles),
    Attack(
        "zip: paths, filler that no manifest lists",
        "held; 1 MB kept 501 MB",
        files.zip_members,
        is_quick=True,
    ),
    Attack("reading others' uploads", "fell: seen by all", files.others_uploads, is_quick=True),
    Attack("uploads without end", "fell: no bound", files.too_many),
    Attack("uploads after their page is closed", "fell: they stayed", files.closed_page),
    Attack(
        "uploads after SIGTERM, SIGINT, SIGHUP",
        "fell: 4 of 4 ways",
        files.signals(signal.SIGTERM, signal.SIGINT, signal.SIGHUP),
    ),
    Attack("SIGTERM while a file is read", "fell: ignored", files.while_reading),
    Attack("kill -9 of `serve`", "fell: the port answered on", lives.killed_command),
    Attack("kill -9 of all", "fell: uploads stayed", lives.sweep_at_start),
    Attack(
        "a run that arrives, a folder that is replaced",
        "fell: the old figures for ever",
        lives.run_that_arrives,
        is_quick=True,
    ),
    Attack(
        "a flood of messages by six sockets",
        "fell: no answer to others for three minutes",
        lives.flood,
    ),
    Attack("200 slow uploads, 200 endless requests", "held", lives.slow_uploads),
    Attack("256 descriptors", "fell after 65 page loads", lives.few_descriptors),
    Attack(
        "a cache on a full disk",
        "fell: tracebacks on pages and commands",
        by_tests("tests/ingest/test_cache.py", "-k", "disk or room or written"),
    ),
    Attack(
        "flipped bits in cached tables",
        "fell: 182 of 250 changed figures",
        by_tests("tests/ingest/test_cache.py", "-k", "flipped or damaged"),
    ),
    Attack(
        "a catalogue that is damaged, locked, newer, a pipe or another account's",
        "there was no catalogue",
        by_tests("tests/ingest/test_summaries.py"),
    ),
    Attack(
        "kill -9 and Ctrl-C while traces are read and cached",
        "held",
        by_tests("tests/ingest/test_cache_killed.py"),
    ),
    Attack(
        "SQLite: views that never end, odd columns and types",
        "held",
        by_tests("tests/ingest/formats/test_nsight.py"),
    ),
    Attack(
        "a trace that is cut while its page is shown",
        "held",
        by_tests("tests/ui/views/test_pages.py", "-k", "cut"),
    ),
    Attack(
        "bundles: links, pipes, paths, flipped bits",
        "held",
        by_tests("tests/bundle/test_read.py"),
    ),
    Attack(
        "names that are markup, formulas or escapes",
        "held",
        by_tests("tests/cli/test_hostile_names.py", "tests/ui/views/test_pages.py", "-k", "names"),
    ),
    Attack(
        "kill -9 of a recorded program, and of `collect` while it saves",
        "fell: a run that was saved was written again",
        by_tests("tests/collectors/program/test_killed.py"),
    ),
    Attack(
        "files that become links and files again while pages read them",
        "fell: an app error in place of a page; no secret",
        visits.swap_links,
    ),
    Attack("zstd bombs of 100 GB, cut and nested", "not tried", visits.unpack_bombs),
    Attack("shared addresses: tokens, other sites, markup", "not tried", visits.share_links),
    Attack("300 silent visitors who vanish", "not tried", visits.open_many_sockets),
    Attack(
        "names that are options, properties, controls or 255 long",
        "not tried",
        visits.use_hostile_names,
    ),
    Attack(
        "commands of a review: planted modules",
        "fell: `import`, `fleet`, `compare` and `collect` ran them",
        reviewed.run_planted_modules,
    ),
    Attack(
        "commands of a review: a hang-up of `nohup`, SIGINT to `collect`",
        "fell: the program died, SIGINT was lost",
        reviewed.end_recorded_programs,
    ),
    Attack(
        "commands of a review: exit codes without a bundle",
        "fell: 7 became 2, 3 became 1",
        reviewed.lose_exit_codes,
    ),
    Attack(
        "commands of a review: another account's links",
        "fell: a link to a run was followed",
        reviewed.follow_foreign_links,
    ),
    Attack(
        "commands of a review: addresses, pipes, closed output, ended exports",
        "fell: tracebacks, hangs, a part file",
        reviewed.run_small_defects,
    ),
    Attack(
        "commands of a review: the hash of another trace",
        "fell: another experiment showed 141 instead of 559 µs",
        retried.claim_foreign_hash,
    ),
    Attack("commands of a review: a full disk", "fell: 5 became 1", retried.fill_disk),
    Attack(
        "commands of a review: uploads of 250 to 600 MB",
        "fell: 1.5 GB for one visitor, uploads blocked for all",
        retried.exceed_quota,
    ),
    Attack(
        "commands of a review: `serve --host 0.0.0.0` under strace",
        "fell: asked a server of Amazon",
        retried.contact_nobody,
    ),
    Attack(
        "commands of a review: SIGTERM, SIGHUP, kill -9 of `import` and `fleet`",
        "fell: three processes and 210 MB stayed",
        retried.end_workers,
    ),
    Attack(
        "commands of a review: TORCH_TRACE logs up to 63 MB",
        "fell: 14 s to over 120 s, unreadable bundles",
        retried.read_hostile_logs,
    ),
    Attack(
        "commands of a review: outputs next to `.cal.json`, `.env`",
        "fell: `.cal.json` destroyed",
        retried.write_beside,
    ),
    Attack(
        "commands of a review: kill -9 of `collect`",
        "fell: the recording was lost",
        retried.kill_collect,
    ),
    Attack(
        "commands of a review: 5,000 experiments, none read before",
        "fell: no Overview in 280 s, 2.9 GB",
        retried.open_many_experiments,
    ),
    Attack(
        "a recorder that always fails",
        "fell: 170 µs per step",
        by_tests("tests/collectors/program/test_window.py", "-k", "keeps_failing"),
    ),
    Attack(
        "malformed, hidden and expensive HTTP requests",
        "fell: a cookie of 60 kB stopped the server for a minute",
        protocol.send_malformed_requests,
    ),
    Attack("compressed messages of 400 MB", "not tried", protocol.send_compressed_messages),
    Attack(
        "folders that are deep, many, linked in circles or in place of files",
        "not tried",
        protocol.plant_folder_trees,
    ),
    Attack(
        "recorded programs under limits, odd variables and closed streams",
        "not tried",
        protocol.starve_recorded_programs,
    ),
    Attack(
        "each read, change and driver call that fails",
        "fell: an error page for an upload on a full disk",
        by_tests(
            "tests/test_file_places.py",
            "tests/ui/state/test_uploads.py",
            "tests/collectors/replays/test_kernels.py",
        ),
    ),
    Attack(
        "the recorder in other people's programs",
        "fell in 3 of 41; 3 of 5 kinds of forks lost",
        by_tests("tests/collectors/program/test_unharmed.py"),
    ),
)
