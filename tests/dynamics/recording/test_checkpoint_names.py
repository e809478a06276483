"""Steps that names of checkpoints say, and names of tensors without those of wrappers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamics.errors import TrajectoryError
from dynamics.recording.checkpoint_names import steps_in_names, tensor_names
from dynamics.settings import SettingsError

FORMS = ("{}", "{:06d}", "{:,}", "{}k", "{}e3", "{}M", "{}-of-99999999")
LABELS = (
    "step",
    "steps_",
    "global_step",
    "iter-",
    "iteration=",
    "update_",
    "time_step_",
)
CHECKPOINTS = ("ckpt_", "checkpoint-", "checkpoint_", "ckpt.")
STEPS = st.lists(st.integers(0, 10**7), min_size=2, max_size=5, unique=True)


def value_of(form, number):
    return number * (10**6 if "M" in form else 1000 if form[-1] in "k3" else 1)


@given(
    steps=STEPS,
    forms=st.lists(st.sampled_from(FORMS), min_size=5, max_size=5),
    label=st.sampled_from(LABELS + CHECKPOINTS + ("epoch=", "epoch_")),
    before=st.sampled_from(["", "run7-", "model_v2_", "lr=0.1-", "best-"]),
    after=st.sampled_from(["", "-v1", "_ema", "-loss=0.25", ".final"]),
)
def test_labelled_numbers_are_the_steps(steps, forms, label, before, after):
    forms = forms[: len(steps)]
    names = [
        f"{before}{label}{form.format(step)}{after}"
        for step, form in zip(steps, forms, strict=True)
    ]
    expected = [value_of(form, step) for step, form in zip(steps, forms, strict=True)]
    assert steps_in_names(names)[0] == expected


@given(
    steps=STEPS,
    before=st.sampled_from(["", "model-", "model_", "gpt2-", "run7_", "w"]),
    after=st.sampled_from(["", "_ema", "k", "-of-5000"]),
)
def test_names_may_differ_in_one_number(steps, before, after):
    names = [f"{before}{step}{after}" for step in steps]
    factor = 1000 if after == "k" else 1
    assert steps_in_names(names)[0] == [factor * step for step in steps]


@given(
    numbers=st.lists(st.integers(1, 28), min_size=2, max_size=4, unique=True),
    form=st.sampled_from(
        [
            "epoch_0.{}1",
            "ckpt_{}.5",
            "step_.{}1",
            ".{}1",
            "step_-{}",
            "step=-{}",
            "-{}",
            "2024-05-{:02d}",
            "2024_05_{:02d}",
            "202405{:02d}",
            "2024-05-01_12-30-{:02d}",
            "20240501_1230{:02d}",
            "17145678{:02d}",
            "v1.{}",
            "12-{}",
            "step_{}_000",
            "step_{}-200",
            "step_{}e3f",
            "step_{}x",
            "step_1.{}e9",
            "step_{},00",
            "model-000{:02d}-of-00099",
            "a{0}b{0}",
            "step_{0}_iter_{0}",
        ]
    ),
)
def test_names_with_several_meanings_are_refused(numbers, form):
    with pytest.raises(SettingsError) as caught:
        steps_in_names([form.format(number) for number in numbers])
    assert "\n" not in str(caught.value)
    assert "--step-from" in str(caught.value) or "index.json" in str(caught.value)


@pytest.mark.parametrize(
    ("names", "steps"),
    [
        (["epoch=3-step=120", "epoch=4-step=160"], [120, 160]),
        (["checkpoint_500_epoch_3", "checkpoint_1000_epoch_7"], [500, 1000]),
        (["500-of-1000", "1000-of-1000"], [500, 1000]),
        (["step_1.5k", "step_2k"], [1500, 2000]),
        (["only-step-7"], [7]),
    ],
)
def test_steps_of_names(names, steps):
    assert steps_in_names(names)[0] == steps


@pytest.mark.parametrize(
    "names", [["epoch_1", "step_100"], ["final", "step_10"], ["a", "b"], ["a1", "b2"]]
)
def test_names_of_different_kinds_are_refused(names):
    with pytest.raises(SettingsError, match="--step-from"):
        steps_in_names(names)


def test_a_single_name_without_a_label_has_no_step():
    assert steps_in_names(["grok113"]) is None


@given(
    names=st.lists(
        st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(".".join),
        min_size=1,
        max_size=6,
        unique=True,
    ),
    depth=st.integers(0, 3),
    wrapper=st.sampled_from(
        ["_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"]
    ),
    modules=st.integers(0, 2),
)
def test_wrappers_leave_no_trace_in_names(names, depth, wrapper, modules):
    wrapped = []
    for name in names:
        parts = name.split(".")
        parts.insert(min(depth, len(parts)), wrapper)
        wrapped.append("module." * modules + ".".join(parts))
    assert list(tensor_names(wrapped).values()) == names


def test_module_stays_if_it_is_part_of_some_names():
    names = ["module.a", "head.b"]
    assert list(tensor_names(names).values()) == names


def test_names_are_changed_by_rules():
    assert tensor_names(["net.a", "head.b"], ["net.=", "head.=out."]) == {
        "net.a": "a",
        "head.b": "out.b",
    }
    with pytest.raises(SettingsError, match="OLD=NEW, where OLD begins a, b"):
        tensor_names(["a", "b"], ["c=d"])
    with pytest.raises(TrajectoryError, match=r"x.a and a: both become a; --rename"):
        tensor_names(["x.a", "a"], ["x.="])
    with pytest.raises(TrajectoryError, match="both become a.w"):
        tensor_names(["a._orig_mod.w", "a.w"])
