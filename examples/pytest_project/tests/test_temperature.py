import pytest
import temperature


@pytest.mark.parametrize("celsius, fahrenheit", [(0, 32), (100, 212), (-40, -40)])
def test_known_points(celsius, fahrenheit):
    assert temperature.to_fahrenheit(celsius) == fahrenheit
    assert temperature.to_celsius(fahrenheit) == celsius


@pytest.mark.parametrize("celsius", [-20.5, 3.25, 36.6])
def test_there_and_back(celsius):
    there = temperature.to_fahrenheit(celsius)
    assert temperature.to_celsius(there) == pytest.approx(celsius)


def test_nothing_is_colder_than_absolute_zero():
    with pytest.raises(ValueError, match="absolute zero"):
        temperature.to_fahrenheit(-300)


def test_files_go_to_a_folder_of_their_own(tmp_path):
    report = tmp_path / "report.txt"
    report.write_text(f"{temperature.to_fahrenheit(20)}\n")
    assert report.read_text() == "68.0\n"
